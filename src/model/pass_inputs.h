#pragma once
// Inputs of all layers of a pass; for inference the positions that are scored and the KV cache.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/lora_pass.h"
#include "model/plan.h"
#include "ops/attention/documents.h"
#include "ops/attention/projection/rope.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// Positions [from, to) of every row.
struct Positions {
  std::int64_t from, to;
  std::int64_t count() const { return to - from; }
};

// Keys and values of one layer call [B, capacity, KV, hd], for the tokens so far.
struct KvCache {
  at::Tensor k, v;
};

// State of token-by-token decoding.
struct DecodeCache {
  std::vector<KvCache> calls{};
  std::int64_t capacity = 0;       // tokens
  std::int64_t context = 0;        // tokens that attention spans; sets RoPE
  std::int64_t length = 0;         // tokens so far
  std::int64_t segment_begin = 0;  // the first token that queries attend to
  at::Tensor last_ids{};           // [B, at most 2] int64, undefined before the first token

  // Appends ids [B, n] int64.
  void add(const at::Tensor& ids_bn) {
    const auto so_far = last_ids.defined() ? at::cat({last_ids, ids_bn}, 1) : ids_bn;
    last_ids = so_far.slice(1, -2);
    length += ids_bn.size(1);
  }
  // Begins a segment at the next token: its queries attend to none of the tokens so far, whose keys
  // and values need not be in the cache.
  void begin_segment() { segment_begin = length; }
  void clear() {
    length = segment_begin = 0;
    last_ids = at::Tensor();
  }
};

// The GEMM inputs of a pass: of QKV, the output projection, W_up and W_down of a layer call, and of
// the head.
enum class Operand { qkv, out, up, down, head };

// Called with each GEMM input of a pass, [B, T, channels] in the compute dtype, padded as
// ComputeSizes, when it has been computed; `block`: index of the matrices' block, -1 for the head.
using OperandObserver =
    std::function<void(Operand operand, std::int64_t block, const at::Tensor& rows)>;

struct PassInputs {
  RopeTable rope{};         // at the inputs' positions
  RopeTable paired_rope{};  // of paired heads; undefined if no layer call of the pass has them
  // Order of the ids, in which every table that is looked up with them sums its gradient.
  std::shared_ptr<IdOrder> id_order{};
  at::Tensor q_gain{};  // [heads] fp32, a constant of all layer calls; undefined: the blocks' own
  bool fp8 = false;     // run the GEMMs that support it in FP8
  // The scored positions, if not all: the last layer call's queries, attention output and MLP
  // compute only these. Never in passes with gradients.
  std::optional<Positions> only{};
  DecodeCache* cache = nullptr;  // of the preceding tokens; null: there are none
  // Documents of the inputs: attention does not cross them. Not with `only` or `cache`.
  std::optional<Documents> documents{};
  // Optional hook, called with the GEMM inputs at all positions; the pass must be in `compute` and
  // without gradients. Forces materialized GEMM inputs.
  const OperandObserver* observer = nullptr;
  // Adapters, at all positions and in `compute`; null: none. Not with `only`, `cache` or
  // `observer`.
  std::shared_ptr<const LoraPass> loras{};

  const RopeTable& rope_of(const LayerCall& call) const { return call.paired ? paired_rope : rope; }
  // `rows`: a tensor or a NormedInput.
  template <class Rows>
  void observe(Operand operand, std::int64_t block, const Rows& rows) const {
    if (observer != nullptr) (*observer)(operand, block, NormedInput(rows).rows());
  }
  std::optional<Positions> scored(const LayerCall& call) const {
    return call.last ? only : std::nullopt;
  }
  // The scored rows of x [B, T, …].
  at::Tensor scored_rows(const at::Tensor& x, const LayerCall& call) const {
    const auto positions = scored(call);
    return positions ? x.narrow(1, positions->from, positions->count()) : x;
  }
};

}  // namespace tg
