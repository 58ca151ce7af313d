#include "ops/pad.h"

#include <cassert>
#include <vector>

namespace tg {

std::int64_t row_multiple(at::Device device, at::ScalarType dtype) {
  return device.is_cuda() && c10::elementSize(dtype) == 2 ? 8 : 1;
}

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

at::Tensor pad_to(const at::Tensor& x, at::IntArrayRef sizes) {
  if (!x.defined() || x.sizes() == sizes) return x;
  std::vector<std::int64_t> added;  // the last dimension first
  for (auto dim = x.dim() - 1; dim >= 0; --dim) {
    added.push_back(0);
    added.push_back(sizes[static_cast<std::size_t>(dim)] - x.size(dim));
    assert(added.back() >= 0);
  }
  return at::constant_pad_nd(x, added);
}

at::Tensor pad_last(const at::Tensor& x, std::int64_t size) {
  if (!x.defined()) return x;
  auto sizes = x.sizes().vec();
  sizes.back() = size;
  return pad_to(x, sizes);
}

at::Tensor pad_heads(const at::Tensor& x, std::int64_t dim, std::int64_t heads,
                     std::int64_t head_dim) {
  if (x.size(dim) == heads * head_dim) return x;
  const auto each = x.unflatten(dim, {heads, -1});
  const auto channels = dim < 0 ? each.dim() + dim : dim + 1;
  auto sizes = each.sizes().vec();
  sizes[static_cast<std::size_t>(channels)] = head_dim;
  return pad_to(each, sizes).flatten(channels - 1, channels);
}

}  // namespace tg
