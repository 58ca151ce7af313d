#include "op_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdio>

#include "device/event.h"
#include "ops/fused.h"

namespace tg {

namespace {

constexpr int kWarmUps = 3, kRepeats = 20;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Upstream gradients: 1 for a scalar, as for a loss.
Tensors upstream_of(const Tensors& outputs) {
  Tensors upstream;
  for (const auto& output : outputs) {
    upstream.push_back(output.dim() == 0 ? at::ones_like(output) : at::randn_like(output));
  }
  return upstream;
}

Tensors differentiable(const Tensors& tensors) {
  Tensors chosen;
  for (const auto& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) chosen.push_back(tensor);
  }
  return chosen;
}

}  // namespace

// Writing a gigabyte before each measurement evicts the inputs from L2, and takes long enough for
// the host to launch the operation before the GPU starts it.
OpTimer::OpTimer(at::Device device, std::string match)
    : device_(device),
      match_(std::move(match)),
      flush_(at::empty({device.is_cuda() ? 1 << 30 : 1},
                       at::TensorOptions(device).dtype(at::kByte))) {}

OpTimer::Times OpTimer::measure(const Tensors& inputs, const Operation& run, bool backward) {
  const auto stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto leaves = differentiable(inputs);
  const int repeats = device_.is_cuda() ? kRepeats : 1, warm_ups = device_.is_cuda() ? kWarmUps : 0;
  const at::AutoGradMode grad_mode(backward);
  Tensors upstream;
  std::vector<Event> moments;
  for (int i = 0; i < warm_ups + repeats; ++i) {
    if (i == warm_ups) moments.clear();
    flush_.zero_();
    moments.emplace_back(stream);
    auto outputs = run(inputs);
    moments.emplace_back(stream);
    if (!backward) continue;
    outputs = differentiable(outputs);
    if (upstream.empty()) upstream = upstream_of(outputs);
    flush_.zero_();
    moments.emplace_back(stream);
    // Operations may overwrite what they saved, so each backward pass has its own forward pass.
    torch::autograd::grad(outputs, leaves, upstream, /*retain_graph=*/false,
                          /*create_graph=*/false, /*allow_unused=*/true);
    moments.emplace_back(stream);
  }
  stream.synchronize();
  std::vector<double> forward_ms, backward_ms;
  const std::size_t stride = backward ? 4 : 2;
  for (std::size_t i = 0; i < moments.size(); i += stride) {
    forward_ms.push_back(moments[i].ms_until(moments[i + 1]));
    if (backward) backward_ms.push_back(moments[i + 2].ms_until(moments[i + 3]));
  }
  return {median(forward_ms), backward ? median(backward_ms) : 0};
}

void OpTimer::measure_ceilings(const Tensors& copied, const std::vector<Tensors>& gemm_operands,
                               const AttentionShape& s) {
  const auto copy = [](const Tensors& in) { return Tensors{in[0].clone()}; };
  const double moved = 2.0 * static_cast<double>(copied[0].nbytes());
  copy_ = moved / measure(copied, copy, false).forward_ms * 1e3;
  for (const auto& pair : gemm_operands) {
    const auto gemm = [](const Tensors& in) { return Tensors{at::linear(in[0], in[1])}; };
    const auto flops = 2.0 * static_cast<double>(pair[0].numel() * pair[1].size(0));
    gemm_ = std::max(gemm_, flops / measure(pair, gemm, false).forward_ms * 1e3);
  }
  const auto head_tensor = [&] {
    return at::randn({s.batch, s.heads, s.seq_len, s.head_dim},
                     at::TensorOptions(device_).dtype(gemm_operands[0][0].scalar_type()))
        .requires_grad_();
  };
  const auto attend = [](const Tensors& in) {
    return Tensors{at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, true)};
  };
  const auto times = measure({head_tensor(), head_tensor(), head_tensor()}, attend, true);
  const auto flops =
      2.0 * static_cast<double>(s.batch * s.heads * s.head_dim * s.seq_len * s.seq_len);
  attention_forward_ = flops / times.forward_ms * 1e3;
  attention_backward_ = 2.5 * flops / times.backward_ms * 1e3;
  fmt::print(
      "ceilings: copy {:.0f} GB/s read and written, GEMM {:.0f} TFLOP/s, attention {:.0f} "
      "forward and {:.0f} backward\n",
      copy_ / 1e9, gemm_ / 1e12, attention_forward_ / 1e12, attention_backward_ / 1e12);
}

void OpTimer::row(const std::string& name, const Cost& cost, const Tensors& inputs,
                  const Operation& run) {
  if (name.find(match_) == std::string::npos) return;
  const bool memory = cost.bound == Cost::Bound::memory, backward = cost.backward >= 0;
  const bool attention = cost.bound == Cost::Bound::attention;
  const auto ours = measure(inputs, run, backward);
  Times reference{};
  if (cost.own_kernel) {
    set_fused(false);
    reference = measure(inputs, run, backward);
    set_fused(true);
  }
  const char* unit = memory ? "GB/s" : "TFLOP/s";
  print(name, cost.forward,
        memory      ? copy_
        : attention ? attention_forward_
                    : gemm_,
        unit, ours.forward_ms, reference.forward_ms);
  if (!backward) return;
  print(name + " backward", cost.backward,
        memory      ? copy_
        : attention ? attention_backward_
                    : gemm_,
        unit, ours.backward_ms, reference.backward_ms);
}

void OpTimer::print(const std::string& name, double cost, double ceiling, const char* unit,
                    double ms, double reference_ms) const {
  std::string line = fmt::format("{:38} {:8.3f}", name, ms);
  const double rate = cost / ms * 1e3;
  const double scale = unit[0] == 'G' ? 1e9 : 1e12;
  line += cost > 0 ? fmt::format(" {:7.0f} {:8}{:6.1f}%", rate / scale, unit, 100 * rate / ceiling)
                   : std::string(24, ' ');
  if (reference_ms > 0) line += fmt::format(" {:10.3f} {:7.2f}x", reference_ms, reference_ms / ms);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace tg
