#pragma once
// Low-rank adapters (LoRA, Hu et al. 2021) for test-time training, a set of them for each row of a
// batch.
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tg {

class Gpt;

struct LoraOptions {
  std::int64_t rank;
  double alpha;
  bool keys = true, mlp = true, out = true;  // which there are besides queries, values and head
};

// The GEMM that an adapter adds to.
enum class LoraKind { head, queries, keys, values, mlp, out };

// A tensor's place in the flat one of all adapters.
struct FlatPart {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape{};
  at::Tensor of(const at::Tensor& flat) const;
};

// The adapters of one input x: their A are one matrix, so that x is multiplied once.
struct LoraGroup {
  struct Adapter {
    LoraKind kind;
    FlatPart b;  // [rows, out, rank]
  };
  FlatPart a;  // [rows, adapters·rank, in]
  std::vector<Adapter> adapters{};
};

// Adapters of every layer call of a model's stage and of its head:
//   y += (x·Aᵀ)·Bᵀ·alpha/rank,  with A [rank, in] and B [out, rank] of the row's own.
// x is attention's input for Q, K, V and the output projection, and is added to that GEMM's output;
// the MLP's own input, added to its output; and the final states, added to the logits before the
// softcap. A block's attn_scale and mlp_scale multiply the sum.
class LoraAdapters {
 public:
  // For batches of `rows` rows and the model's stage as it is now, on its device. A is drawn as by
  // draw_a(), B is zero.
  LoraAdapters(const Gpt& model, const LoraOptions& options, std::int64_t rows,
               at::Generator& generator);

  std::int64_t rows() const { return rows_; }
  std::int64_t rank() const { return rank_; }
  double scale() const { return scale_; }  // alpha/rank
  // Draws a new A, uniform within ±1/√in, with a CPU generator in the reference implementation's
  // order: the head's, then of all calls Q's, V's, K's, the MLP's, the output's.
  void draw_a(at::Generator& generator);
  void zero_b();

  // All of them, one flat leaf [n], fp32 (fp64 with such a model), first every A, then every B. Its
  // gradient, which is there and zero from the start, is not added to: backward() of
  // adapted_losses() writes the whole of its rows.
  const at::Tensor& parameters() const { return parameters_; }
  at::Tensor all_a() const;
  at::Tensor all_b() const;
  // Returns an adapter matrix by its name in the reference implementation, "lm_head_lora.A", or
  // "q_loras.0.B" for the stage's first call: a view [rows, …] without gradient.
  at::Tensor named(const std::string& name) const { return names_.at(name); }
  const std::map<std::string, at::Tensor>& all_named() const { return names_; }

  struct Visit {
    LoraGroup attention, mlp;
  };
  // The stage's calls, in their order.
  const std::vector<Visit>& visits() const { return visits_; }
  const LoraGroup& head() const { return head_; }

 private:
  std::int64_t rows_, rank_;
  double scale_;
  LoraGroup head_;
  std::vector<Visit> visits_;
  std::int64_t a_count_ = 0;
  at::Tensor parameters_;
  std::map<std::string, at::Tensor> names_;
};

}  // namespace tg
