#include <fmt/format.h>

#include <cstdio>

#include "base/elapsed.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "data/training_order.h"
#include "data/vocabulary.h"
#include "eval/sampling/generate.h"
#include "model_io/model_path.h"
#include "text/tokenizer.h"
#include "train/run_parts.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt sample: continues a text with a trained model.\n"
    "\n"
    "  train_gpt sample --init-from MODEL --prompt TEXT [--tokens N] [--temperature T] ...\n"
    "\n"
    "Prints prompt and continuation as it is sampled; the speed goes to standard error. The\n"
    "context is at most TRAIN_SEQ_LEN tokens, with DOCUMENT_ATTENTION=1 none before the last BOS.\n"
    "SEED seeds the sampling. A continuation ends after --tokens, before the text of --stop or,\n"
    "with --stop-at-document-end 1, at the end of the document; --samples prints several.\n"
    "\n";

}  // namespace

void sample_command(int argc, const char* const* argv) {
  SampleOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& settings = parsed->settings;
  const auto& origins = parsed->origins;
  require_flag(is_given(origins, "prompt"), "sample", "--prompt TEXT");
  const auto tokenizer = open_tokenizer(settings, "sample");
  encode_prompt(tokenizer, options.prompt);  // throws before the model is loaded
  const bool has_bos = tokenizer.bos_id() >= 0;
  REQUIRE(
      !options.stop_at_document_end || has_bos, ExitCode::usage,
      "--stop-at-document-end: {} has no BOS, with which another document would begin (expected "
      "a tokenizer that has); give --stop TEXT",
      tokenizer.path());
  const auto joined = join_alone(settings, origins, SettingsUse::sampling, "sample");
  resolve_bos_id(settings);
  Communicator alone;
  choose_model(settings, alone);
  const ModelParts weights(settings, joined.machine, alone, ModelUse::inference);

  GenerateOptions generating{.sampling = {.temperature = options.temperature,
                                          .top_k = options.top_k,
                                          .top_p = options.top_p,
                                          .seed = static_cast<std::uint64_t>(settings.data.seed)},
                             .tokens = options.tokens,
                             .context = settings.run.train_seq_len.last(),
                             .kv_cache = options.kv_cache,
                             .segments = training_segments(settings),
                             .stop_text = options.stop};
  if (options.stop_at_document_end) generating.stop_id = tokenizer.bos_id();
  const auto began = Clock::now();
  std::int64_t drawn = 0;
  for (std::int64_t sample = 0; sample < options.samples; ++sample) {
    print_text((sample > 0 ? "---\n" : "") + options.prompt);
    drawn += generate(weights.model, tokenizer, options.prompt, generating, joined.machine.device,
                      print_text);
    print_text("\n");
    ++generating.sampling.seed;
  }
  const double spent_s = seconds_since(began);
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s\n", drawn, spent_s,
             static_cast<double>(drawn) / spent_s);
}

}  // namespace tg
