#pragma once
#include <ATen/ATen.h>

namespace tg::test {

// The largest relative error of any row of `found` [..., columns]: detects a wrong tile, row or
// column. `exact` is in fp64.
inline double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto rows = [](const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); };
  const auto off = (rows(found.to(exact.device(), at::kDouble)) - rows(exact)).norm(2, 1);
  return (off / (rows(exact).norm(2, 1) + 1e-30)).max().item<double>();
}

}  // namespace tg::test
