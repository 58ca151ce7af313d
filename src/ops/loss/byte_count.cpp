#include "ops/loss/byte_count.h"

#include <vector>

namespace tg {
namespace {

template <class T>
at::Tensor on_device(const std::vector<T>& values, at::ScalarType dtype, at::Device device) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  return at::tensor(wide, at::kLong).to(dtype).to(device);
}

}  // namespace

DeviceByteTable to_device(const ByteTable& table, at::Device device) {
  return {.base_bytes = on_device(table.base_bytes, at::kLong, device),
          .leading_space = on_device(table.leading_space, at::kBool, device),
          .boundary = on_device(table.boundary, at::kBool, device)};
}

at::Tensor count_bytes(const DeviceByteTable& table, const at::Tensor& x_bt,
                       const at::Tensor& y_bt) {
  const auto x = x_bt.flatten(), y = y_bt.flatten();
  const auto space = table.leading_space.index_select(0, y).logical_and_(
      table.boundary.index_select(0, x).logical_not_());
  return table.base_bytes.index_select(0, y).sum() + space.sum();
}

}  // namespace tg
