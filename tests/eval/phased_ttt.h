#pragma once
// Shared code of the tests of phased test-time training.
#include "eval/ttt/phased_ttt.h"
#include "tests/eval/legality.h"
#include "tests/eval/two_layers.h"

namespace tg::test {

inline constexpr int kVocab = 40;
inline constexpr std::int64_t kBos = TwoLayers::kBos, kSeed = 7;

using Lengths = std::vector<std::int64_t>;

// Documents of these lengths; each except the last includes the next one's BOS.
inline Tokens documents_of(const Lengths& lengths, std::uint64_t seed = 3) {
  Tokens tokens;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool last = i + 1 == lengths.size();
    const auto own = random_tokens(lengths[i] - (last ? 1 : 2), kVocab - 2, seed + i);
    tokens.push_back(kBos);
    for (const auto token : own) tokens.push_back(static_cast<TokenId>(token + 2));
  }
  return tokens;
}

// Gives batches of {70}, {41, 44, 52}, {23, 30, 33} and {12, 14, 21}, whose documents end in
// different chunks.
inline const Lengths kLengths{33, 14, 70, 12, 44, 52, 21, 30, 23, 41};

// Seven batches of three, and {90} first.
inline const Lengths kManyLengths{33, 14, 60, 12, 44, 52, 21, 30, 23, 41, 10,
                                  18, 26, 38, 47, 90, 28, 55, 16, 36, 24, 11};

inline PhasedTttOptions options_of() {
  PhasedTttOptions options{.seed = kSeed, .bos_id = kBos, .seq_len = 8};
  auto& ttt = options.config;
  ttt.phased_ttt_prefix_docs = 2;
  ttt.phased_ttt_num_phases = 2;
  ttt.ttt_lora_rank = 2;
  ttt.ttt_lora_alpha = 4;
  ttt.ttt_lora_lr = 0.02;
  ttt.ttt_beta2 = 0.99;
  ttt.ttt_weight_decay = 0.5;
  ttt.ttt_chunk_size = 8;
  ttt.ttt_eval_seq_len = 20;
  ttt.ttt_batch_size = 3;
  ttt.global_ttt_lr = 0.1;
  ttt.global_ttt_chunk_tokens = 24;
  ttt.global_ttt_batch_seqs = 2;
  return options;
}

// Options that save to PREFIX and request a stop after `times` queries.
inline PhasedTttOptions stopping(PhasedTttOptions options, const std::string& prefix, int times) {
  options.state_files = std::make_shared<TttStateFiles>(prefix);
  // Queried through copies.
  options.stop_requested = [times, asked = std::make_shared<int>(0)] {
    return (*asked)++ == times;
  };
  return options;
}
// Options that save to PREFIX and never request a stop.
inline PhasedTttOptions going_on(const PhasedTttOptions& options, const std::string& prefix) {
  return stopping(options, prefix, -1);
}

struct TttRun {
  std::vector<double> losses;  // one for each prediction; NaN: not scored
  Score score;
};
inline TttRun run_ttt(const Tokens& tokens, const PhasedTttOptions& options,
                      Communicator& communicator, Gpt& gpt, const ParameterTable& table,
                      at::Device device, const TextBytes* bytes = nullptr) {
  const SplitTokens split(ListedTokens(tokens), std::ssize(tokens) - 1,
                          options.config.ttt_eval_seq_len, bytes, kBos, device);
  PhasedTtt ttt(gpt, table, split, options, device, communicator);
  const auto losses =
      at::full({split.predictions()}, NAN, at::TensorOptions(device).dtype(at::kDouble));
  ttt.save_token_losses(losses);
  const auto score = ttt.run();
  return {values_of(losses.cpu()), score};
}
inline TttRun run_ttt(const Tokens& tokens, const PhasedTttOptions& options,
                      Communicator& communicator, TwoLayers& model,
                      const TextBytes* bytes = nullptr) {
  return run_ttt(tokens, options, communicator, model.gpt, model.table, at::kCPU, bytes);
}
inline TttRun run_ttt(const Tokens& tokens, const PhasedTttOptions& options) {
  Communicator alone;
  TwoLayers model;
  return run_ttt(tokens, options, alone, model);
}

inline void expect_same_weights(const ParameterTable& actual, const ParameterTable& expected) {
  for (std::size_t i = 0; i < expected.rows().size(); ++i)
    EXPECT_TRUE(is_same(actual.rows()[i].value.detach(), expected.rows()[i].value.detach()))
        << expected.rows()[i].name;
}

}  // namespace tg::test
