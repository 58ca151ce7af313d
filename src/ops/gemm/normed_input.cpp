#include "ops/gemm/normed_input.h"

#include <cassert>
#include <utility>

#include "ops/kernels.h"

namespace tg {

namespace {

at::Tensor scaled(const at::Tensor& x, const at::Tensor& row_scale) {
  if (!row_scale.defined()) return x;
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  return (x * row_scale.detach().view(sizes)).to(x.scalar_type());
}

}  // namespace

NormedInput NormedInput::deferred_scale(at::Tensor x, at::Tensor row_scale) {
  NormedInput input(std::move(x));
  input.form_ = NormedForm::deferred_scale;
  input.row_scale_ = std::move(row_scale);
  return input;
}

NormedInput NormedInput::quantized(at::Tensor x, at::Tensor rounded) {
  assert(rounded.defined());
  NormedInput input(std::move(x), std::move(rounded));
  input.form_ = NormedForm::quantized;
  return input;
}

at::Tensor NormedInput::rows() const {
  assert(form_ != NormedForm::quantized);
  return scaled(tensor_, row_scale_);
}

at::Tensor NormedInput::columns(std::int64_t first, std::int64_t count) const {
  assert(form_ != NormedForm::quantized);
  return scaled(tensor_.narrow(-1, first, count), row_scale_);
}

at::Tensor NormedInput::rounded(const Fp8Scaling& scaling) const {
  return rounded_.defined() ? rounded_ : to_fp8(rows(), scaling);
}

NormedInput NormedInput::in_fp8(const Fp8Scaling& scaling) const {
  if (form_ == NormedForm::quantized) return *this;
  const auto input = materialized();
  return quantized(input.tensor_, input.rounded(scaling));
}

NormedInput NormedInput::materialized() const {
  return form_ == NormedForm::materialized ? *this : NormedInput(rows());
}

NormedInput NormedInput::with_tensor(at::Tensor alias) const {
  auto input = *this;
  input.tensor_ = std::move(alias);
  return input;
}

NormedInput NormedInput::contiguous() const {
  return with_tensor(aligned_contiguous(tensor_));
}

NormedInput NormedInput::flat() const {
  auto flat = *this;
  for (auto* x : {&flat.tensor_, &flat.rounded_}) {
    if (x->defined()) *x = x->flatten(0, -2);
  }
  return flat;
}

}  // namespace tg
