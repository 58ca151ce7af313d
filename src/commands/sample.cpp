#include "commands/sample.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/elapsed.h"
#include "base/error.h"
#include "checkpoint/model_path.h"
#include "comm/communicator.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "data/training_order.h"
#include "data/vocabulary.h"
#include "eval/generate.h"
#include "text/tokenizer.h"
#include "train/run_parts.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt sample: continues a text with a trained model.\n"
    "\n"
    "  train_gpt sample --init-from MODEL --prompt TEXT [--tokens N] [--temperature T] ...\n"
    "\n"
    "Prints prompt and continuation, as it is drawn; the speed goes to standard error. The model\n"
    "sees at most TRAIN_SEQ_LEN tokens, with DOCUMENT_ATTENTION=1 none before the last BOS.\n"
    "SEED decides the draw.\n"
    "\n";

}  // namespace

void sample_command(int argc, const char* const* argv) {
  SampleOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& [settings, origins, no_help, no_version] = *parsed;
  require_flag(origins.at("prompt") != "default", "sample", "--prompt TEXT");
  const auto tokenizer = open_tokenizer(settings, "sample");
  encode_prompt(tokenizer, options.prompt);  // fails before the model is loaded
  const auto joined = join_alone(settings, origins, SettingsUse::sampling, "sample");
  resolve_bos_id(settings);
  Communicator alone;
  choose_model(settings, alone);
  const ModelParts weights(settings, joined.machine, alone, ModelUse::inference);

  print_text(options.prompt);
  const auto began = Clock::now();
  generate(weights.model, tokenizer, options.prompt,
           {.sampling = {.temperature = options.temperature,
                         .top_k = options.top_k,
                         .top_p = options.top_p,
                         .seed = static_cast<std::uint64_t>(settings.data.seed)},
            .tokens = options.tokens,
            .context = settings.run.train_seq_len.last(),
            .kv_cache = options.kv_cache,
            .segments = training_segments(settings)},
           joined.machine.device, print_text);
  print_text("\n");
  const double spent_s = seconds_since(began);
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s\n", options.tokens, spent_s,
             static_cast<double>(options.tokens) / spent_s);
}

}  // namespace tg
