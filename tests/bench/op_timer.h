#pragma once
// Times operations one by one and prints them as a fraction of what the machine reaches.
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tg {

using Tensors = std::vector<at::Tensor>;
using Operation = std::function<Tensors(const Tensors&)>;

// The minimum work of a call, forward and backward: bytes read and written, or FLOPs. For 0 only
// the time is printed, for no_backward nothing.
struct Cost {
  enum class Bound { memory, gemm, attention } bound;
  double forward, backward;
  bool own_kernel = false;  // also times the reference (FUSED=0)
};
inline constexpr double no_backward = -1;
inline Cost bytes(double forward, double backward) {
  return {Cost::Bound::memory, forward, backward, true};
}
inline Cost gemms(double forward, double backward) {
  return {Cost::Bound::gemm, forward, backward};
}
inline Cost own_gemms(double forward, double backward) {
  return {Cost::Bound::gemm, forward, backward, true};
}

class OpTimer {
 public:
  // Rows whose name does not contain `match` are not measured.
  explicit OpTimer(at::Device device, std::string match = "");

  struct AttentionShape {
    std::int64_t batch, seq_len, heads, head_dim;
  };
  // Measures the reference rates: a copy of copied[0], the fastest GEMM a·bᵀ over the pairs {a, b}
  // of gemm_operands, and attention forward and backward.
  void measure_ceilings(const Tensors& copied, const std::vector<Tensors>& gemm_operands,
                        const AttentionShape& attention);

  // Prints one line for forward and one for backward, which computes the gradients of the inputs
  // that require one.
  void row(const std::string& name, const Cost& cost, const Tensors& inputs, const Operation& run);

 private:
  struct Times {
    double forward_ms, backward_ms;
  };
  Times measure(const Tensors& inputs, const Operation& run, bool backward);
  void print(const std::string& name, double cost, double ceiling, const char* unit, double ms,
             double reference_ms) const;

  at::Device device_;
  std::string match_;
  at::Tensor flush_;
  double copy_ = 0;                                                   // bytes per second
  double gemm_ = 0, attention_forward_ = 0, attention_backward_ = 0;  // FLOPs per second
};

}  // namespace tg
