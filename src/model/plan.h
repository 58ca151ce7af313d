#pragma once
// A model as data: the parameters of its parts, and the layer calls of a pass in their order. A
// recipe (recipes/) makes the plan from the settings, Gpt computes it; only the recipe knows layer
// numbers. A parameter that is none leaves out its term.
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
#include "ops/loss/softcap.h"

namespace tg {

class Layers;
class NormedInput;
struct Pass;
struct PassInputs;

// The computation between the embedding and the head, composed of calls to `layers` (layers.h):
// from ids [B, T] and the first block's input x0 [B, T, D] to the normed states that the head
// reads.
using Flow =
    std::function<NormedInput(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                              const at::Tensor& ids_bt, const at::Tensor& x0_btd)>;

// σ(W·x + b).
struct Gate {
  ParameterId weight, bias;
};

// Gate of each head's attention output, ops/attention/gates/head_gate.h: range·σ(scale·(W·x + b)).
struct HeadGate {
  enum class Input {
    normed,   // x is n, attention's input
    queries,  // x is W_q·n, before norm and RoPE
  };
  Gate gate{};  // W [heads, window] and b [heads]
  Input input = Input::normed;
  std::int64_t window = 0;  // reads the first `window` channels of x; 0: all
  double scale = 1, range = 1;
};

// Input of the first block, ops/embedding/token_embedding.h.
struct EmbeddingPlan {
  ParameterId tokens;
  ParameterId bigrams, bigram_projection, bigram_scale;
  ParameterId smear_gate;
  ParameterId gated_smear_weight, gated_smear_lambda;
  bool smears_across_documents = false;  // the gated smear also reads across documents
  // Tables whose gradients are summed in fp32 over a step's micro-batches where they are stored in
  // 16 bits.
  std::vector<ParameterId> summed_in_fp32{};
};

// Added to attention's values by layer calls with a value_scale:
//   scale · value_scale of the layer call · projection·table[ids]
struct ValueEmbeddingPlan {
  ParameterId table, projection, scale;
};

// The matrices of all blocks.
struct MatricesPlan {
  BlockMatrices queries, keys, values, out, up, down;
};

// Value residual: v = first·v_first + own·v, where v_first are the values of the first layer call,
// which has v = v_first.
struct ValueMix {
  ParameterId weights;  // [2]: first and own; with `blend` []: first, and own is 1 − first
  bool blend = false;
};

// Parameters of a block besides its matrices, shared by all of its layer calls.
struct BlockPlan {
  ParameterId mix;  // m of the input mix, [2, D] or [2]
  ParameterId q_gain;
  ParameterId attn_scale, mlp_scale;  // multiply the outputs of attention and the MLP
  ParameterId qk_scale;               // [1], multiplies queries and keys before their norm
  ParameterId value_scale;  // [1], multiplies attention's own values; not with a value mix
  ValueMix value_mix;
  HeadGate head_gate;
  Gate update_gate;  // multiplies all that the block adds
};

// Two lanes of the residual stream: attention reads lane 0, which skips are added to, and the MLP
// reads lane 1, in parallel:
//   lane k = residual[k]·lane k + post[0, k]·attention + post[1, k]·MLP
// Before the first layer call with lanes, both equal the stream.
struct LaneMix {
  ParameterId residual, post;  // [2] and [2, 2] in row `row` of each
  std::int64_t row = 0;
};

// A layer call: one application of a block in a pass.
struct LayerCall {
  std::int64_t index;  // index in the last stage, of its KV cache and its FP8 scales
  std::int64_t block;  // index of the block whose weights it uses
  double norm_scale;   // multiplies its normed inputs

  // Input: m0·(x + w·skip) + m1·x0, where x is the previous layer call's output; with gates
  // m0·(σ(g)·x + (1 − σ(g))·w·skip) + m1·x0. With two lanes, the skip is added to lane 0 only.
  struct Skip {
    ParameterId weights, gates{};  // w and g, in row `row` of each
    std::int64_t row = 0;
    std::optional<std::int64_t> slot{};  // where the skip was saved; nullopt: it is x
  } skip{};
  std::optional<std::int64_t> keep_input{};  // slot that saves x for a later skip

  LaneMix lanes{};          // none: one lane, attention then MLP
  bool attends = true;      // false: the MLP alone
  std::int64_t window = 0;  // tokens that a query attends to, itself included; 0: all before
  bool exclusive = false;   // attention subtracts the component along the query's own value
  // Heads are paired (ops/attention/paired_heads.h), with rotations of their own; `window` counts
  // elements, two a token. As many KV heads as heads, an even number.
  bool paired = false;
  // The second half of a key's channels is that of the token before (QkvInputs::key_offset). Not in
  // decoding, whose cache has no plain keys.
  bool key_offset = false;
  // Tokens, itself included, whose attention a query composes with the flow's weights
  // (ops/attention/composed_attention.h); 0: none. As many KV heads as heads. Not with paired
  // heads.
  std::int64_t composed_window = 0;
  ParameterId value_scale{};  // of the value embedding; none: no value embedding
  // The flow gives it values, or its normed input to other operations, too: the input is
  // materialized.
  bool adds_values = false;
  bool last = false;  // its output is read at scored positions only
};

// The layer calls of a pass, in order.
struct Pass {
  std::vector<LayerCall> calls{};
  std::int64_t slots = 0;  // number of slots for skips
  // Rotation per position of each pair of a head's rotated channels, in radians, [rope_dims / 2]
  // fp32 on the CPU; undefined: from the plan's rope_base.
  at::Tensor rope_frequencies{};
  double attention_scale = 0;  // multiplies q·k; 0: 1/√qk_head_dim
};

// A part of a run whose passes are all alike.
struct Stage {
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Start: a fraction of the schedule if below 1 (schedule_share()), else a step; or kNever.
  double from = 0;
  // No step trains in this stage: it is only evaluated, after the last step of the stage before it.
  bool evaluates_alone = false;
  Pass pass{};
  std::string title = "every pass";  // for messages: "in recurrence"
  // Blocks of the encoder and of the decoder, in order, "[0, 1, 2]".
  std::string encoder{}, decoder{};
  // Names of the stage's beginning and of its warm-up in the script's log.
  std::string log_name{}, warm_up_log_name{};

  // `done`: the fraction of the schedule that is done after `step` steps.
  bool begun(std::int64_t step, double done) const {
    return (from < 1 ? done : static_cast<double>(step)) >= from;
  }
};

// Without a weight the head is tied to the token table.
struct HeadPlan {
  ParameterId weight;
  Softcap softcap = 30;  // of the logits
  // Heads that predict further tokens, and the weight of their mean loss.
  std::vector<ParameterId> multi_token{};
  double multi_token_weight = 0;
  // The lane that is normed for the head, by what reads it, or the mean of both lanes.
  ParallelFinalLane lane = ParallelFinalLane::mean;
  // Unit of a step's gradients. True: the loss is the mean over micro-batches of the sum over their
  // tokens; false: of the mean over their tokens.
  bool sums_over_tokens = false;
};

struct Plan {
  ModelShape shape;
  Flow flow = nullptr;
  // Whether a token is decoded from keys and values cached of those before it; false: its flow also
  // hashes the ids before it or offsets keys, so that the whole row is computed again.
  bool decodes_from_cache = true;
  double rope_base = 0;
  bool rope_interleaved = false;  // RoPE rotates the pairs (2j, 2j + 1), else half-split ones
  double negative_slope = 0;      // of the MLP's leaky ReLU
  EmbeddingPlan embedding;
  ValueEmbeddingPlan value_embedding;
  MatricesPlan matrices;
  std::vector<BlockPlan> blocks{};
  // Stages in the order in which they begin. The last one has all layer calls; an earlier stage has
  // a subset, with the same indices.
  std::vector<Stage> stages{};
  HeadPlan head;

  const BlockPlan& block(const LayerCall& call) const {
    return blocks[static_cast<std::size_t>(call.block)];
  }
  // Every layer call of any stage, by index.
  const std::vector<LayerCall>& all_calls() const { return stages.back().pass.calls; }
  const Pass& pass(std::int64_t stage) const {
    return stages[static_cast<std::size_t>(stage)].pass;
  }
  // The last stage that a run reaches.
  std::int64_t last_stage() const {
    const auto begins = [](const Stage& stage) { return stage.from != Stage::kNever; };
    const auto last = std::find_if(stages.rbegin(), stages.rend(), begins);
    return stages.rend() - last - 1;
  }
  // The stage that is evaluated after the last step of a run that ended in `stage`.
  std::int64_t scored_stage(std::int64_t stage) const {
    const auto next = static_cast<std::size_t>(stage + 1);
    return next < stages.size() && stages[next].evaluates_alone ? stage + 1 : stage;
  }
};

}  // namespace tg
