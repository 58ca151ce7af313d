#include "commands/sample.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/error.h"
#include "comm/communicator.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "commands/print.h"
#include "data/tokenizer.h"
#include "eval/generate.h"
#include "train/model_path.h"
#include "train/run_parts.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt sample: continues a text with a trained model.\n"
    "\n"
    "  train_gpt sample --init-from MODEL --prompt TEXT [--tokens N] [--temperature T] ...\n"
    "\n"
    "Prints prompt and continuation, as it is drawn; the speed goes to standard error. The model\n"
    "sees at most TRAIN_SEQ_LEN tokens. SEED decides the draw.\n"
    "\n";

struct SampleOptions {
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  bool kv_cache = true;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("prompt", s.prompt, anything, role::option, "text to continue; needed, and may be empty");
    line("tokens", s.tokens, within(1, 1 << 30), role::option, "tokens to draw");
    line("temperature", s.temperature, at_least(0), role::option,
         "temperature of the softmax; 0: always the most likely token");
    line("top_k", s.top_k, at_least(0), role::option,
         "draw only from the k most likely tokens; 0: from all");
    line("top_p", s.top_p, within(0, 1), role::option,
         "draw only from the most likely tokens, whose probabilities add up to p");
    line("kv_cache", s.kv_cache, anything, role::option,
         "cache keys and values (KV cache); 0: recompute all tokens for each new one");
  }
};

}  // namespace

std::vector<Entry> sample_options() {
  static SampleOptions defaults;
  return entries_of(defaults);
}

void sample_command(int argc, const char* const* argv) {
  SampleOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& [settings, origins, no_help, no_version] = *parsed;
  REQUIRE(origins.at("prompt") != "default", ExitCode::usage,
          "train_gpt sample: expected --prompt TEXT, found none; see train_gpt sample --help");
  const auto tokenizer = open_tokenizer(settings, "sample");
  encode_prompt(tokenizer, options.prompt);  // fails before the model is loaded
  const auto joined = join_alone(settings, origins, SettingsUse::sampling, "sample");
  Communicator alone;
  choose_model(settings, alone);
  const ModelParts weights(settings, joined.machine, alone, ModelUse::inference);

  print_text(options.prompt);
  const auto began = std::chrono::steady_clock::now();
  generate(weights.model, tokenizer, options.prompt,
           {.sampling = {.temperature = options.temperature,
                         .top_k = options.top_k,
                         .top_p = options.top_p,
                         .seed = static_cast<std::uint64_t>(settings.data.seed)},
            .tokens = options.tokens,
            .context = settings.run.train_seq_len.last(),
            .kv_cache = options.kv_cache},
           joined.machine.device, print_text);
  print_text("\n");
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s\n", options.tokens, spent.count(),
             static_cast<double>(options.tokens) / spent.count());
}

}  // namespace tg
