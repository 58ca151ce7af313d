#pragma once
// fixtures/gptq.safetensors: results of the reference implementation (its script of April 2026) for
// small tensors in fp32: GPTQ at 4 sigmas and 15 levels with dead inputs, the Hessian as its lower
// triangle row by row; LQER's packings of given factors, in groups of 64 and in 4 bits per row; the
// rows of a gate.
#include <map>
#include <string>

#include "tests/ops/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {

inline const at::Tensor& quantize_fixture(const std::string& name) {
  static const auto loaded = load_safetensors(TEST_DATA_DIR "/gptq.safetensors");
  static const std::map<std::string, at::Tensor> tensors(loaded.begin(), loaded.end());
  return tensors.at(name);
}

// A symmetric positive definite H [n, n], as for correlated inputs, `dead` of which are 0.
inline at::Tensor random_hessian(std::int64_t n, std::uint64_t seed,
                                 const std::vector<std::int64_t>& dead = {}) {
  auto x = normal({2 * n + 8, n}, seed).matmul(normal({n, n}, seed + 1)) + normal({n}, seed + 2);
  for (const auto column : dead) x.select(1, column).zero_();
  return x.t().matmul(x).to(at::kFloat);
}

}  // namespace tg::test
