#include "eval/ttt/base_training.h"

#include <algorithm>
#include <vector>

#include "base/elapsed.h"
#include "base/log.h"
#include "data/segments.h"
#include "eval/ttt/chunk_training.h"

namespace tg {

double base_lr(const PhasedTttConfig& config, std::int64_t chunk, std::int64_t chunks) {
  const auto rising = config.global_ttt_warmup_chunks;
  if (chunk >= rising) return chunk_lr(config.global_ttt_lr, chunk - rising, chunks - rising);
  const auto last = static_cast<double>(std::max<std::int64_t>(rising - 1, 1));
  const double begin = config.global_ttt_warmup_start_lr;
  return begin + (config.global_ttt_lr - begin) * static_cast<double>(chunk) / last;
}

namespace {

class BasePhase {
 public:
  BasePhase(Gpt& model, const ParameterTable& table, std::span<const TokenId> tokens,
            const PhasedTttOptions& options, at::Device device, Communicator& communicator)
      : model_(model),
        tokens_(tokens),
        options_(options),
        training_{.rows = {.predictions = std::ssize(tokens) - 1,
                           .chunk_tokens = options.config.global_ttt_chunk_tokens,
                           .length = options.seq_len},
                  .batch_rows = options.config.global_ttt_batch_seqs,
                  .per_rank = options.record_quirks,
                  .epochs = options.config.global_ttt_epochs,
                  .grad_clip = options.config.global_ttt_grad_clip},
        device_(device),
        communicator_(communicator),
        parameters_(
            table, /*frozen_blocks=*/0, options.config.global_ttt_momentum,
            /*record_quirks=*/false,
            options.scale_loss ? options.config.global_ttt_batch_seqs * options.seq_len : 0) {
    parameters_.zero_gradients();
  }

  bool run() {
    const auto began = Clock::now();
    const auto chunks = training_.rows.chunks();
    const auto add = [this](const StepRows& rows) { add_gradients(rows); };
    for (std::int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      const auto& stops = options_.stop_requested;
      if (stops && communicator_.first_rank_with(stops())) return false;
      const double lr = base_lr(options_.config, chunk, chunks);
      train_on_chunk(chunk, lr, training_, add, model_, parameters_, communicator_);
      log_info("tttg: c{}/{} lr:{:.6f} t:{:.1f}s", chunk + 1, chunks, lr, seconds_since(began));
    }
    return true;
  }

 private:
  // Input of a pass: `length` tokens from `begin` on; the first `lead` are context without a loss.
  struct Part {
    std::int64_t begin = 0, length = 0, lead = 0;
    std::vector<std::int32_t> segments{};  // where segments begin, relative to `begin`
  };

  void add_gradients(const StepRows& rows) {
    const bool segments = options_.config.global_ttt_respect_doc_boundaries;
    const auto part = segments ? whole_segments(rows) : sequences(rows);
    const auto predicted = part.length - part.lead;
    if (predicted == 0) return;
    const auto own = tokens_.subspan(static_cast<std::size_t>(part.begin),
                                     static_cast<std::size_t>(part.length) + 1);
    const auto host = at::empty({part.length + 1}, at::kLong);
    std::ranges::copy(own, host.mutable_data_ptr<std::int64_t>());
    const auto ids = host.to(device_);
    const auto row = segments ? part.length : options_.seq_len;
    std::optional<Documents> documents;
    if (segments) documents = documents_of(part);
    const ForwardMode mode{
        .scale = static_cast<double>(predicted) / static_cast<double>(rows.rows * options_.seq_len),
        .lead = part.lead,
        .context = std::max(options_.config.ttt_eval_seq_len, options_.seq_len),
        .grad_scale = parameters_.grad_scale()};
    const at::AutoGradMode with_gradients(true);
    model_
        .loss(ids.narrow(0, 0, part.length).view({-1, row}),
              ids.narrow(0, 1, part.length).view({-1, row}), mode, documents)
        .backward();
    model_.collect_gradients();
  }

  Part sequences(const StepRows& rows) const {
    return {.begin = rows.begin + rows.first * options_.seq_len,
            .length = rows.count * options_.seq_len};
  }

  SegmentRule rule() const { return {.bos_id = options_.bos_id, .limit = options_.seq_len}; }

  // The segments of the step's row that begin in this rank's sequences, preceded by the two tokens
  // that smear and bigrams read.
  Part whole_segments(const StepRows& rows) const {
    constexpr std::int64_t kSeenBefore = 2;
    const auto length = rows.rows * options_.seq_len;
    const auto row =
        tokens_.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(length));
    const auto starts = segment_starts(row, length, rule());
    const auto from = [&](std::int64_t sequence) {
      return std::ranges::lower_bound(starts, sequence * options_.seq_len);
    };
    const auto first = from(rows.first), last = from(rows.first + rows.count);
    const std::int64_t begin = first == starts.end() ? length : *first,
                       end = last == starts.end() ? length : *last;
    Part part{.lead = std::min(begin, kSeenBefore)};
    part.begin = rows.begin + begin - part.lead;
    part.length = end - begin + part.lead;
    if (part.lead > 0) part.segments.push_back(0);
    for (auto start = first; start != last; ++start)
      part.segments.push_back(static_cast<std::int32_t>(*start - begin + part.lead));
    return part;
  }

  Documents documents_of(const Part& part) const {
    auto offsets = part.segments;
    offsets.push_back(static_cast<std::int32_t>(part.length));
    return documents_at(at::tensor(offsets, at::kInt).to(device_), 1, part.length,
                        longest_segment(part.length, rule()));
  }

  Gpt& model_;
  const std::span<const TokenId> tokens_;
  const PhasedTttOptions& options_;
  const ChunkTraining training_;
  const at::Device device_;
  Communicator& communicator_;
  TttParameters parameters_;
};

}  // namespace

bool train_base(Gpt& model, const ParameterTable& table, std::span<const TokenId> tokens,
                const PhasedTttOptions& options, at::Device device, Communicator& communicator) {
  if (tokens.empty()) return true;
  return BasePhase(model, table, tokens, options, device, communicator).run();
}

}  // namespace tg
