#pragma once
// A model as data: its parts' parameters, and the layer calls of a pass in their order. A recipe
// (recipes/) makes it of the settings and Gpt computes it; the meaning of a layer's number is the
// recipe's alone. An absent parameter leaves its term out.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/declarations.h"
#include "model/padding.h"
#include "model/parameters.h"

namespace tg {

class Layers;
class NormedInput;
struct Pass;
struct PassInputs;

// The computation between the embedding and the head, of calls of `layers` (layers.h): from ids
// [B, T] and the first block's input x0 [B, T, D] to the normed states that the head reads.
using Flow =
    std::function<NormedInput(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                              const at::Tensor& ids_bt, const at::Tensor& x0_btd)>;

// σ(W·x + b).
struct Gate {
  ParameterId weight, bias;
};

// On each head's output of attention, ops/attention/head_gate.h: range·σ(scale·(W·x + b)).
struct HeadGate {
  enum class Input {
    normed,   // x is n, attention's input
    queries,  // x is W_q·n, before norm and RoPE
  };
  Gate gate{};  // W [heads, window] and b [heads]
  Input input = Input::normed;
  std::int64_t window = 0;  // the first channels of x, which alone are read; 0: all are
  double scale = 1, range = 1;
};

// The first block's input, ops/embedding/token_embedding.h.
struct EmbeddingPlan {
  ParameterId tokens;
  ParameterId bigrams, bigram_projection, bigram_scale;
  ParameterId smear_gate;
  ParameterId gated_smear_weight, gated_smear_lambda;
  bool smears_across_documents = false;  // the gated smear reads a token of another document, too
};

// Value embedding added to attention's values in calls that have it:
//   scale · call's scale · projection·table[ids]
struct ValueEmbeddingPlan {
  ParameterId table, projection, scale;
};

// The matrices of all blocks.
struct MatricesPlan {
  BlockMatrices queries, keys, values, out, up, down;
};

// Value residual: v = first·v_first + own·v, with v_first the values of the first call, which has
// no mix itself.
struct ValueMix {
  ParameterId weights;  // [2], first and own; with `blend` [], first, and own is 1 − first
  bool blend = false;
};

// Parameters of a block besides its matrices, equal in all its calls.
struct BlockPlan {
  ParameterId mix;  // m of its input, [2, D] or [2]
  ParameterId q_gain;
  ParameterId attn_scale, mlp_scale;  // of what attention and the MLP add
  ParameterId value_scale;            // [1], of attention's own values; not beside a value mix
  ValueMix value_mix;
  HeadGate head_gate;
  Gate update_gate;  // of all that the block adds
};

// Two lanes of the residual stream: attention reads and skips enter lane 0, the MLP reads lane 1,
// neither waits for the other, and
//   lane k = residual[k]·lane k + post[0, k]·attention + post[1, k]·MLP
// Lanes that there are not yet are both the stream.
struct LaneMix {
  ParameterId residual, post;  // [2] and [2, 2], each its row `row`
  std::int64_t row = 0;
};

// One pass through a block.
struct Visit {
  std::int64_t index;  // in the last stage: of its KV cache and its FP8 scales
  std::int64_t block;  // whose weights
  double norm_scale;   // of its normed inputs

  // The call's input: m0·(x + w·skip) + m1·x0, x the output of the call before; with gates
  // m0·(σ(g)·x + (1 − σ(g))·w·skip) + m1·x0. With two lanes a skip enters the first alone.
  struct Skip {
    ParameterId weights, gates{};  // w and g are their rows `row`
    std::int64_t row = 0;
    std::optional<std::int64_t> slot{};  // where the skip was kept; none: it is x
  } skip{};
  std::optional<std::int64_t> keep_input{};  // the slot in which x is kept for a later skip

  LaneMix lanes{};          // none: one lane, in which the MLP follows attention
  bool attends = true;      // else the call is its MLP alone
  std::int64_t window = 0;  // tokens that attention's queries see, the own included; 0: all before
  bool exclusive = false;   // attention subtracts the part along the own value
  ParameterId value_scale{};  // of the value embedding; none: without it
  bool last = false;          // its output is read at the scored positions alone
};

// The layer calls of a pass, in their order.
struct Pass {
  std::vector<Visit> visits{};
  std::int64_t slots = 0;  // of kept outputs
  // Radians that each pair of a head's rotated channels turns from position to position,
  // [rope_dims / 2] fp32 on the CPU; undefined: by the plan's rope_base.
  at::Tensor rope_frequencies{};
  double attention_scale = 0;  // of the scores q·k; 0: 1/√head_dim
};

// A part of a run in which every pass is the same.
struct Stage {
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Below 1 the fraction of the schedule after which it begins (schedule_share()), else the step;
  // or kNever.
  double from = 0;
  // No step trains in it: what is scored after the last step of the stage before it is.
  bool evaluates_alone = false;
  Pass pass{};
  std::string title = "every pass";  // for people: "in recurrence"
  // The blocks of the encoder and of the decoder in their order, "[0, 1, 2]".
  std::string encoder{}, decoder{};
  // How the script's log names the beginning of a later stage and of its warm-up.
  std::string log_name{}, warm_up_log_name{};

  // `share`: fraction of the schedule that is done after `step` steps.
  bool begun(std::int64_t step, double share) const {
    return (from < 1 ? share : static_cast<double>(step)) >= from;
  }
};

// What is normalised for the head where there are two lanes: their mean, or one of them.
enum class FinalLane { mean, first, second };

// Without a weight the head is the token table. Logits z are bounded, c·tanh(z / c).
struct HeadPlan {
  ParameterId weight;
  double softcap = 0;  // c
  // Heads that predict further tokens, and the weight of the mean of their losses.
  std::vector<ParameterId> multi_token{};
  double multi_token_weight = 0;
  FinalLane lane = FinalLane::mean;
  // The unit of a step's gradients: its loss is the mean over micro-batches of the sum over their
  // tokens; else of the mean over their tokens.
  bool sums_over_tokens = false;
};

struct Plan {
  ModelShape shape;
  Flow flow = nullptr;
  double rope_base = 0;
  double negative_slope = 0;  // of the MLP's leaky ReLU
  EmbeddingPlan embedding;
  ValueEmbeddingPlan value_embedding;
  MatricesPlan matrices;
  std::vector<BlockPlan> blocks{};
  // Stages in the order in which they begin. The last one has every layer call; an earlier one has
  // some of them, under equal indices.
  std::vector<Stage> stages{};
  HeadPlan head;

  const BlockPlan& block(const Visit& visit) const {
    return blocks[static_cast<std::size_t>(visit.block)];
  }
  // Every layer call of any stage, at its index.
  const std::vector<Visit>& all_visits() const { return stages.back().pass.visits; }
  const Pass& pass(std::int64_t stage) const {
    return stages[static_cast<std::size_t>(stage)].pass;
  }
  // The last of the stages that a run comes to.
  std::int64_t last_stage() const {
    const auto begins = [](const Stage& stage) { return stage.from != Stage::kNever; };
    const auto last = std::find_if(stages.rbegin(), stages.rend(), begins);
    return stages.rend() - last - 1;
  }
  // What is scored after the last step of a run that ended in `stage`.
  std::int64_t scored_stage(std::int64_t stage) const {
    const auto next = static_cast<std::size_t>(stage + 1);
    return next < stages.size() && stages[next].evaluates_alone ? stage + 1 : stage;
  }
};

}  // namespace tg
