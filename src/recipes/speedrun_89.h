#pragma once
// Declarations shared by the files of record 89's recipe.
#include <cstdint>

#include "config/settings.h"
#include "model/plan.h"
#include "recipes/recipe.h"
#include "weights/tensors/named_tensors.h"

namespace tg::record_89 {

inline constexpr std::int64_t kBlocks = 11, kHeads = 6;
inline constexpr std::int64_t kWithoutAttention = 6;
inline constexpr std::int64_t kLast = kBlocks - 1;
inline constexpr std::int64_t kValueTables = 5;  // in one parameter, one after the other

// The value table whose gated rows a block adds to its values; −1: none. The last block mixes the
// last table into its values.
constexpr std::int64_t value_table(std::int64_t block) {
  if (block == 1 || block == 2) return block - 1;
  return block == 8 || block == 9 ? block - 6 : -1;
}

// Outputs of the networks that compute each token's gates (token_gates()): the first from the
// normed embedding, the second from the input of block 4. A pair is the gate of the embedding and
// the gate of the bigram embedding.
namespace pre {
// After the exclusive parts of blocks 1 and 3.
inline constexpr std::int64_t kHeadGate3 = 2 * kHeads, kPairs = 3 * kHeads,
                              kCount = kPairs + 2 * 4;  // blocks 0 … 3
}  // namespace pre
namespace post {
// After the exclusive parts of blocks 4 and 7.
inline constexpr std::int64_t kHeadGate10 = 2 * kHeads,
                              kPairs = 3 * kHeads,  // blocks 4, 5, 7, 8, 9
    kSkip = kPairs + 2 * 5, kCompose = kSkip + 1, kCount = kCompose + 2 * kHeads;
}  // namespace post

// Outputs of the network that mixes earlier states (MUDD, Xiao et al. 2025): in the last block, and
// after it.
inline constexpr std::int64_t kLastMixes = 14, kFinalMixes = 5;

// Parameters that only the flow reads; a network of gates has row 0 of each of its parameters for
// the first pass through it, row 1 for the second.
struct FlowParameters {
  ParameterId value_tables, value_gates;  // [5V, D], [5, heads, 12]
  ParameterId bigrams, signs;             // [rows, D] each
  ParameterId resid, branch;              // [blocks, 2]: of attention and of the MLP
  ParameterId skip;                       // λ, [1]
  ParameterId mudd_w1, mudd_w2, mudd_b2;  // [2, hidden, D], [2, 14, hidden], [2, 14]
  ParameterId gate_w1, gate_w2, gate_b2;  // [2, hidden, D], [2, 41, hidden], [2, 41]
  ParameterId gate_scale;                 // γ, []
};

// The forward pass: blocks 0 … 10 in order. x0 is the normed embedding, β the bigram embedding, x a
// block's input, first x0 + gate·β; gates and mixes are numbers of each token:
//   x ← λ·x + λ'·attention(n(x)) + gate·x0 + gate·β  except in 6,  x ← λ·x + λ'·mlp(n(x))
// Blocks 8, 9 and 10 attend from the norm of block 8's input.
Flow flow(const FlowParameters& parameters);

// Sets record 89's settings.
void set_defaults(Settings& settings);

// The model of `settings`, RECIPE=speedrun_89 or speedrun_91. Requires settings that fit the
// layers; own_defaults: sets the recipe's.
ModelSpec model(const Settings& settings, void (*own_defaults)(Settings&));
ModelSpec spec(const Settings& settings);

// Renames and reshapes the script's weights to train_gpt's; returns whether they were the script's.
bool rename_script_weights(NamedTensors& tensors);

}  // namespace tg::record_89
