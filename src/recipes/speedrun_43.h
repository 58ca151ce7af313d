#pragma once
// Declarations that the files of record 43's recipe share.
#include <array>
#include <cstdint>
#include <vector>

#include "config/settings.h"
#include "model/plan.h"
#include "recipes/recipe.h"
#include "weights/named_tensors.h"

namespace tg::record_43 {

inline constexpr std::int64_t kBlocks = 12;  // numbered as in the script: block 0 is empty
inline constexpr std::int64_t kWithoutAttention = 7;
inline constexpr std::int64_t kFirstDecoder = 6;  // block 6 + j adds the output of block 5 − j
inline constexpr std::int64_t kBackout = 8;       // whose output is subtracted from the last one
inline constexpr std::int64_t kValueTables = 3;

// Parameters that the flow alone reads.
struct FlowParameters {
  std::array<ParameterId, kValueTables> value_tables;
  ParameterId backout;  // λ, []
};

// Which of the value tables a block mixes into its values; −1: none.
constexpr std::int64_t value_table(std::int64_t block) {
  if (block == 1 || block == 2) return block;
  return block >= 9 ? block - 9 : -1;
}

// The blocks 1 … 11 in their order. With x0 the normed embedding, of a block's input x
//   x ← x + σ(w)·skip in 6 … 10,  x ← λ0·x + λ1·x0,
//   x ← x + attention(n(x)) but in 7,  x ← x + mlp(n(x))
// and the states that the head reads are n(x − λ·x₈).
Flow flow(const FlowParameters& parameters);

// The stages of a run: windows of attention that grow, RoPE and attention's scale with them.
// `skip_weights`: w, [5]; `value_scales`: a block's factor on its value table's rows, or none.
std::vector<Stage> stages(const ModelConfig& config, ParameterId skip_weights,
                          const std::vector<ParameterId>& value_scales);

// Returns the model's spec. Parameters have the names of the script's state dict, except its vector
// of scalars, each of which has its own name here, and the matrices, which are in banks.
// Precondition: the settings fit the layers.
ModelSpec spec(const Settings& settings);

// Gives the weights of the script train_gpt's names and shapes. → whether they were the script's.
bool rename_script_weights(NamedTensors& tensors);

}  // namespace tg::record_43
