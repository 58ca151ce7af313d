#include "eval/phased_ttt.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "base/log.h"
#include "base/python_format.h"
#include "eval/eta.h"

namespace tg {

namespace {

std::span<const std::uint16_t> span_of(const at::Tensor& tokens) {
  return {tokens.const_data_ptr<std::uint16_t>(), static_cast<std::size_t>(tokens.numel())};
}

std::string four_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "none";
}

// The work until each batch is scored, in inputs of a row.
std::vector<std::int64_t> inputs_until(std::span<const DocumentBatch> batches,
                                       const ChunkOptions& options) {
  std::vector<std::int64_t> until;
  std::int64_t inputs = 0;
  for (const auto& batch : batches) {
    const auto chunks = chunks_of_document(batch.longest() - 1, options);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) inputs += row_length(chunk, options);
    until.push_back(inputs);
  }
  return until;
}

}  // namespace

PhasedTtt::PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
                     const PhasedTttOptions& options, at::Device device, Communicator& communicator)
    : model_(model),
      table_(table),
      options_(options),
      device_(device),
      communicator_(communicator),
      scorer_(model, tokens, options_.config, device, communicator),
      tokens_(tokens.inputs(0, 1, tokens.predictions() + 1, 1).view(-1).cpu()),
      generator_(
          at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(options.seed))),
      sums_(device) {
  const auto& config = options_.config;
  auto documents = find_documents(span_of(tokens_), options.bos_id);
  documents_ = documents_to_score(std::ssize(documents), config.val_doc_fraction);
  documents.resize(static_cast<std::size_t>(documents_));
  batches_ = batch_by_length(std::move(documents), config.ttt_batch_size);
  prefix_documents_ = std::min(documents_, config.phased_ttt_prefix_docs);
  boundaries_ = phase_boundaries(prefix_documents_, config.phased_ttt_num_phases);
  phases_ = plan_phases(batches_, boundaries_);
  inputs_until_ = inputs_until(batches_, scorer_.chunks());
}

Score PhasedTtt::run() {
  began_ = Clock::now();
  log_plan();
  model_.set_fake_quant(false);
  model_.cast_weights();
  set_.emplace(model_, options_.config, options_.config.ttt_batch_size, generator_);
  std::int64_t scored = 0;
  for (const auto& phase : phases_) {
    score_batches(scored, phase.batches);
    train_on(phase);
    scored = phase.batches;
  }
  score_batches(scored, std::ssize(batches_));
  set_.reset();
  sums_.add_other_ranks(communicator_);
  const PeerWatch::Scope waiting(communicator_.watch());
  return sums_.score();
}

void PhasedTtt::score_batches(std::int64_t begin, std::int64_t end) {
  const EtaLine eta("phased test-time training");
  const auto counter = communicator_.make_counter();
  for (auto next = begin + communicator_.claim(counter); next < end;
       next = begin + communicator_.claim(counter)) {
    const auto place = static_cast<std::size_t>(next);
    ScoreSums sums(device_);
    score(batches_[place], sums);
    sums_.add(sums);
    log_batch(batches_[place], sums.score(), sums_.score());
    eta(inputs_until_[place], inputs_until_.back());
  }
}

void PhasedTtt::score(const DocumentBatch& batch, ScoreSums& sums) {
  const auto rows = std::ssize(batch.documents);
  if (rows < options_.config.ttt_batch_size) {
    AdapterSet set(model_, options_.config, rows, generator_);
    return scorer_.score(batch, set, sums);
  }
  set_->restart(generator_);
  scorer_.score(batch, *set_, sums);
}

// The weights change only once every rank has scored its batches, since each step of them is
// collective.
void PhasedTtt::train_on(const TttPhase& phase) {
  communicator_.barrier();
  log_info("ttpp: phase:{}/{} pd:{} gd:{} t:{:.1f}s", phases_done_ + 1, boundaries_.size(),
           phase.scored, phase.training.size(), seconds_since(began_));
  const auto joined = join_documents(span_of(tokens_), phase.training, options_.bos_id,
                                     /*repeat_bos=*/options_.record_quirks);
  train_base(model_, table_, joined,
             {.config = options_.config,
              .seq_len = options_.seq_len,
              .bos_id = options_.bos_id,
              .scale_loss = options_.scale_loss},
             device_, communicator_);
  set_->redraw(generator_);
  communicator_.barrier();
  ++phases_done_;
  log_info("ttpr: phase:{}/{} t:{:.1f}s", phases_done_, boundaries_.size(), seconds_since(began_));
}

void PhasedTtt::log_plan() const {
  log_info("ttt_phased: total_docs:{} prefix_docs:{} suffix_docs:{} num_phases:{} boundaries:{}",
           documents_, prefix_documents_, documents_ - prefix_documents_, boundaries_.size(),
           py_repr(boundaries_));
}

void PhasedTtt::log_batch(const DocumentBatch& batch, const Score& own,
                          const Score& running) const {
  log_info("ttp: b{}/{} bl:{:.4f} bb:{} rl:{:.4f} rb:{} dl:{}-{} gd:{}", batch.index + 1,
           batches_.size(), own.loss, four_digits(own.bpb), running.loss, four_digits(running.bpb),
           batch.documents.front().length, batch.longest(),
           phases_done_ == boundaries_.size() ? 1 : 0);
}

}  // namespace tg
