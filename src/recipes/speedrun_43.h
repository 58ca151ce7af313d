#pragma once
// Declarations shared by the files of record 43's recipe.
#include <array>
#include <cstdint>

#include "config/settings.h"
#include "model/plan.h"
#include "recipes/recipe.h"
#include "weights/tensors/named_tensors.h"

namespace tg::record_43 {

inline constexpr std::int64_t kBlocks = 12;  // numbered as in the script; block 0 is unused
inline constexpr std::int64_t kWithoutAttention = 7;
inline constexpr std::int64_t kFirstDecoder = 6;  // block 6 + j adds the output of block 5 − j
inline constexpr std::int64_t kBackout = 8;       // its output is subtracted from the last block's
inline constexpr std::int64_t kValueTables = 3;

// Parameters that only the flow reads.
struct FlowParameters {
  std::array<ParameterId, kValueTables> value_tables;
  ParameterId backout;  // λ, []
};

// The value table that a block mixes into its values; −1: none.
constexpr std::int64_t value_table(std::int64_t block) {
  if (block == 1 || block == 2) return block;
  return block >= 9 ? block - 9 : -1;
}

// The forward pass: blocks 1 … 11 in order. x0 is the normed embedding, x a block's input:
//   x ← x + σ(w)·skip in 6 … 10,  x ← λ0·x + λ1·x0,
//   x ← x + attention(n(x)) except in 7,  x ← x + mlp(n(x))
// The head reads n(x − λ·x₈).
Flow flow(const FlowParameters& parameters);

// The model of `settings`. Parameters are named as in the script's state dict, except its vector
// `scalars`, whose elements have separate names, and the matrices, which are in banks. Requires
// settings that fit the layers.
ModelSpec spec(const Settings& settings);

// Renames and reshapes the script's weights to train_gpt's; returns whether they were the script's.
bool rename_script_weights(NamedTensors& tensors);

}  // namespace tg::record_43
