#pragma once
// Low-rank adapters (LoRA, Hu et al. 2021) for test-time training, one set for each row of a batch.
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
  bool keys = true, mlp = true, out = true;  // adapters besides queries, values and head
};

// The matrix whose output an adapter adds to.
enum class LoraKind { head, queries, keys, values, mlp, out };

// A tensor's offset and shape in the flat parameter of all adapters.
struct FlatPart {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape{};
  at::Tensor view(const at::Tensor& flat) const;
};

// Adapters of one input x: their A are concatenated, so that one GEMM computes x·Aᵀ for all.
struct LoraGroup {
  struct Adapter {
    LoraKind kind;
    FlatPart b;  // [rows, out, rank]
  };
  FlatPart a;  // [rows, adapters·rank, in]
  std::vector<Adapter> adapters{};
};

// Adapters of every layer call of a model's stage and of its head:
//   y += (x·Aᵀ)·Bᵀ·alpha/rank,  with A [rank, in] and B [out, rank] of each row.
// x is attention's input for Q, K, V and the output projection, the MLP's input for the MLP, and
// the final states for the head; y is the output of that projection, the MLP's output, and the
// logits before the softcap. attn_scale and mlp_scale of a block multiply the sum.
class LoraAdapters {
 public:
  // For batches of `rows` rows and the model's current stage, on its device. Draws A by draw_a(); B
  // is zero.
  LoraAdapters(const Gpt& model, const LoraOptions& options, std::int64_t rows,
               at::Generator& generator);

  std::int64_t rows() const { return rows_; }
  std::int64_t rank() const { return rank_; }
  double scale() const { return scale_; }  // alpha/rank
  // Redraws A, uniform within ±1/√in, from a CPU generator in the reference implementation's order:
  // the head's, then Q's of all layer calls, V's, K's, the MLP's and the output projection's.
  void draw_a(at::Generator& generator);
  void zero_b();

  // All adapters as one flat leaf [n], fp32 (fp64 for an fp64 model): every A, then every B. Its
  // gradient exists from the start, as zeros; backward() of adapted_losses() overwrites its rows
  // instead of accumulating.
  const at::Tensor& parameters() const { return parameters_; }
  at::Tensor all_a() const;
  at::Tensor all_b() const;
  // One adapter by its name in the reference implementation, "lm_head_lora.A" or "q_loras.0.B" (the
  // stage's first layer call): a view [rows, …] without gradient.
  at::Tensor named(const std::string& name) const { return names_.at(name); }
  const std::map<std::string, at::Tensor>& all_named() const { return names_; }

  struct LayerCall {
    LoraGroup attention, mlp;
  };
  // Groups of each layer call, in the stage's order.
  const std::vector<LayerCall>& calls() const { return calls_; }
  const LoraGroup& head() const { return head_; }

 private:
  std::int64_t rows_, rank_;
  double scale_;
  LoraGroup head_;
  std::vector<LayerCall> calls_;
  std::int64_t a_count_ = 0;
  at::Tensor parameters_;
  std::map<std::string, at::Tensor> names_;
};

}  // namespace tg
