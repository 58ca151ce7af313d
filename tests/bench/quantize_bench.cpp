// usage: quantize_bench
//
// Times GPTQ and LQER for the matrices of configs/record_1061.env, with random weights and
// Hessians: ms of the whole, in the libraries' first calls and once more, then for each kind of
// matrix the Hessian factors and the rounding (also with FUSED=0). On a CPU two layers of an eighth
// of the width, as a test.
#include <ATen/Context.h>
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/program.h"
#include "device/gpu.h"
#include "ops/fused.h"
#include "ops/quantize/gptq.h"

namespace tg {
namespace {

struct Matrices {
  const char* name;
  std::int64_t count, rows, columns;
  GptqOptions options;
};

std::vector<Matrices> kinds(std::int64_t layers, std::int64_t dim) {
  return {{"attn.c_q", layers, dim, dim, {13, 6}},
          {"attn.c_k and c_v", 2 * layers, dim / 2, dim, {13, 6}},
          {"attn.proj", layers, dim, dim, {13, 6}},
          {"mlp.fc", layers, 4 * dim, dim, {11.5, 6}},
          {"mlp.proj", layers, dim, 4 * dim, {11.5, 6}},
          {"tok_emb", 1, 16 * dim, dim, {14, 7}}};
}

template <typename Action>
double ms_of(at::Device device, Action action) {
  const auto wait = [&] {
    if (device.is_cuda()) wait_for_gpu();
  };
  wait();
  const auto begin = std::chrono::steady_clock::now();
  action();
  wait();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

struct Work {
  Matrices kind;
  std::vector<at::Tensor> weights, hessians;

  std::vector<HessianFactor> factors() const {
    std::vector<HessianFactor> all;
    for (const auto& hessian : hessians) all.push_back(factor_hessian(hessian, kind.name));
    return all;
  }
  std::vector<GptqWeight> quantized(const std::vector<HessianFactor>& by) const {
    std::vector<GptqWeight> all;
    for (std::size_t i = 0; i < weights.size(); ++i)
      all.push_back(gptq(weights[i], by[i], kind.options, kind.name));
    return all;
  }
};

Work random_work(const Matrices& kind, at::Device device) {
  Work work{kind, {}, {}};
  for (std::int64_t i = 0; i < kind.count; ++i) {
    work.weights.push_back(0.02 * at::randn({kind.rows, kind.columns}, device));
    const auto x = at::randn({2 * kind.columns, kind.columns}, device) + 0.2;
    work.hessians.push_back(at::matmul(x.t(), x));
  }
  return work;
}

void time_whole(const char* name, const std::vector<Work>& all, at::Device device) {
  std::vector<at::Tensor> weights;
  std::vector<GptqWeight> quantized;
  const double gptq_ms = ms_of(device, [&] {
    for (const auto& work : all) {
      weights.insert(weights.end(), work.weights.begin(), work.weights.end());
      for (auto& weight : work.quantized(work.factors())) quantized.push_back(std::move(weight));
    }
  });
  const double lqer_ms =
      ms_of(device, [&] { correct_largest_errors(weights, quantized, 3, LqerOptions{}); });
  fmt::print("{}: GPTQ {:.1f} ms, LQER {:.1f} ms\n", name, gptq_ms, lqer_ms);
}

void run() {
  const at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  std::vector<Work> all;
  for (const auto& kind : kinds(device.is_cuda() ? 11 : 2, device.is_cuda() ? 512 : 64))
    all.push_back(random_work(kind, device));
  for (const char* name : {"first pass", "second pass"}) time_whole(name, all, device);
  fmt::print("{:20} {:>5} {:>13} {:>11} {:>11} {:>13}\n", "", "count", "shape", "factors ms",
             "rounding ms", "FUSED=0 ms");
  for (const auto& work : all) {
    std::vector<HessianFactor> factors;
    const double factor_ms = ms_of(device, [&] { factors = work.factors(); });
    const double ms = ms_of(device, [&] { work.quantized(factors); });
    set_fused(false);
    const double reference_ms = ms_of(device, [&] { work.quantized(factors); });
    set_fused(true);
    fmt::print("{:20} {:5} {:>13} {:11.2f} {:11.2f} {:13.2f}\n", work.kind.name, work.kind.count,
               fmt::format("{} x {}", work.kind.rows, work.kind.columns), factor_ms, ms,
               reference_ms);
  }
}

}  // namespace
}  // namespace tg

int main() {
  return tg::run_program([] { tg::run(); });
}
