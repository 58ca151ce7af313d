// usage: phased_ttt_bench DOCUMENTS EVERY TRACE [--config FILE] [--NAME VALUE ...]
//
// Times phased test-time training with train_gpt's own settings. Scores every EVERY-th batch of the
// first DOCUMENTS documents of DATA_PATH's training split with a model with random weights, after a
// warm-up on the middle one of these batches. Base training on the first three chunks of
// GLOBAL_TTT_CHUNK_TOKENS is timed separately. TRACE, unless empty: file for a profile of three of
// the batches, which tests/bench/kernel_table.py reads.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/elapsed.h"
#include "base/program.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/parse.h"
#include "data/splits.h"
#include "data/vocabulary.h"
#include "device/gpu.h"
#include "device/gpu_memory.h"
#include "eval/ttt/phased_ttt.h"
#include "recipes/recipe.h"
#include "tests/data/listed_tokens.h"
#include "train/run_parts.h"
#include "train/trace.h"

namespace tg {
namespace {

using test::Tokens;

// Reads the first documents of a source, each with the BOS after it.
Tokens read_documents(const TokenSource& source, std::int64_t documents, std::int64_t bos_id) {
  constexpr std::int64_t kPart = 1 << 20;
  Tokens tokens;
  std::int64_t begun = 0;
  while (begun <= documents) {
    Tokens part(kPart);
    source.read_at(std::ssize(tokens), part);
    begun += std::ranges::count(part, bos_id);
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  for (; begun > documents; tokens.pop_back()) begun -= tokens.back() == bos_id;
  return tokens;
}

class Bench {
 public:
  Bench(const Settings& settings, const Machine& machine, std::int64_t documents,
        std::int64_t every)
      : settings_(settings),
        machine_(machine),
        weights_(settings, machine, alone_, ModelUse::training) {
    const auto vocab = static_cast<int>(settings.model.vocab_size);
    const auto source = open_splits(settings.data, vocab, {.threads = machine.cores}).train;
    tokens_ = read_documents(*source, documents, bos_id());
    const auto plan =
        batch_by_length(find_documents(tokens_, bos_id()), settings.phased_ttt.ttt_batch_size);
    const auto step = static_cast<std::size_t>(every);
    for (std::size_t i = std::min(step / 2, plan.size() - 1); i < plan.size(); i += step)
      batches_.push_back(plan[i]);
  }

  void run(const std::string& trace_path) {
    const auto middle = std::span(batches_).subspan(batches_.size() / 2, 1);
    score(middle);
    const double seconds = score(batches_);
    fmt::print("scored {} batches, {} tokens in {:.2f} s: {:.0f} tokens/s, peak {} MiB\n",
               batches_.size(), predictions(batches_), seconds,
               static_cast<double>(predictions(batches_)) / seconds, peak_mib());
    time_base_training();
    if (!trace_path.empty()) profile(trace_path);
  }

 private:
  std::int64_t bos_id() const { return settings_.data.bos_id.value; }

  std::int64_t peak_mib() const {
    return machine_.device.is_cuda() ? gpu_memory_peak().allocated >> 20 : 0;
  }

  static std::int64_t predictions(std::span<const DocumentBatch> batches) {
    std::int64_t count = 0;
    for (const auto& batch : batches)
      for (const auto& document : batch.documents) count += document.predictions();
    return count;
  }

  // Concatenates the batches' documents; their lengths give the same batches again.
  Tokens join(std::span<const DocumentBatch> batches) const {
    Tokens joined;
    for (const auto& batch : batches)
      for (const auto& [start, length] : batch.documents)
        joined.insert(joined.end(), tokens_.begin() + start, tokens_.begin() + start + length - 1);
    joined.push_back(static_cast<TokenId>(bos_id()));
    return joined;
  }

  // Returns seconds.
  double score(std::span<const DocumentBatch> batches) {
    const test::ListedTokens source(join(batches));
    const auto count = source.tokens(0) - 1;
    const SplitTokens split(source, count, eval_length(settings_), nullptr, {}, machine_.device);
    auto config = settings_.phased_ttt;
    config.phased_ttt_prefix_docs = 0;
    PhasedTtt phased(weights_.model, weights_.parameters, split,
                     {.config = config,
                      .seed = settings_.data.seed,
                      .bos_id = bos_id(),
                      .seq_len = eval_length(settings_),
                      .scale_loss = machine_.compute == at::kHalf},
                     machine_.device, alone_);
    wait();
    const auto began = Clock::now();
    phased.run();
    wait();
    return seconds_since(began);
  }

  void time_base_training() {
    const auto& config = settings_.phased_ttt;
    const auto wanted = static_cast<std::size_t>(4 * config.global_ttt_chunk_tokens + 1);
    const auto tokens = std::span(tokens_).first(std::min(wanted, tokens_.size()));
    const PhasedTttOptions options{.config = config,
                                   .bos_id = bos_id(),
                                   .seq_len = eval_length(settings_),
                                   .scale_loss = machine_.compute == at::kHalf};
    for (const char* name : {"first", "second"}) {
      wait();
      const auto began = Clock::now();
      train_base(weights_.model, weights_.parameters, tokens, options, machine_.device, alone_);
      wait();
      fmt::print("base training, {} time: three chunks of {} tokens in {:.3f} s\n", name,
                 config.global_ttt_chunk_tokens, seconds_since(began));
    }
  }

  void profile(const std::string& path) {
    SpanLog spans;
    Trace trace(path, settings_.runtime, machine_.device, spans);
    trace.change();
    const auto first = batches_.size() / 4;
    score(std::span(batches_).subspan(first, std::min<std::size_t>(3, batches_.size() - first)));
    trace.change();
  }

  void wait() const {
    if (machine_.device.is_cuda()) wait_for_gpu();
  }

  const Settings& settings_;
  const Machine& machine_;
  Communicator alone_;
  ModelParts weights_;
  Tokens tokens_;
  std::vector<DocumentBatch> batches_;
};

void run(int argc, char** argv) {
  REQUIRE(argc > 3, ExitCode::usage, "expected DOCUMENTS, EVERY and TRACE");
  const std::int64_t documents = std::stoll(argv[1]), every = std::stoll(argv[2]);
  const std::string trace = argv[3];
  argv[3] = argv[0];
  auto [settings, origins, warnings, help, version, help_page] =
      parse_settings(argc - 3, argv + 3, {.set_recipe_defaults = set_recipe_defaults});
  check_settings(settings, 1);
  resolve_bos_id(settings);
  const auto machine = set_up_machine(settings.runtime, settings.model, read_launch());
  Bench(settings, machine, documents, every).run(trace);
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
