#pragma once
// Times operations one by one and sets them beside what the machine can do: one line each.
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

namespace tg {

using Tensors = std::vector<at::Tensor>;
using Operation = std::function<Tensors(const Tensors&)>;

// What a call needs at least, forward and backward: bytes read and written, or floating-point
// operations. Nothing (0) for a direction: its time alone is printed, or with no_backward not even
// that.
struct Cost {
  enum class Bound { memory, product, attention } bound;
  double forward, backward;
  bool own_kernel = false;  // there is a reference to compare with
};
inline constexpr double no_backward = -1;
inline Cost bytes(double forward, double backward) {
  return {Cost::Bound::memory, forward, backward, true};
}
inline Cost products(double forward, double backward) {
  return {Cost::Bound::product, forward, backward};
}
inline Cost own_products(double forward, double backward) {
  return {Cost::Bound::product, forward, backward, true};
}

class OpTimer {
 public:
  explicit OpTimer(at::Device device);

  // What the shares refer to: a copy, the fastest of some products, attention forward and backward.
  struct Shape {
    std::int64_t batch, seq_len, heads, head_dim;  // of attention
  };
  void measure_ceilings(const Tensors& copied, const std::vector<Tensors>& factors,
                        const Shape& attention);

  // Prints a line forward and one backward, as own kernel and as reference. The inputs that require
  // a gradient are differentiated.
  void row(const std::string& name, const Cost& cost, const Tensors& inputs, const Operation& run);

 private:
  struct Times {
    double forward_ms, backward_ms;
  };
  Times measure(const Tensors& inputs, const Operation& run, bool backward);
  void print(const std::string& name, double cost, double ceiling, const char* unit, double ms,
             double reference_ms) const;

  at::Device device_;
  at::Tensor flush_;
  double copy_ = 0, product_ = 0, attention_forward_ = 0, attention_backward_ = 0;  // a second
};

}  // namespace tg
