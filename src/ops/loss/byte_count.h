#pragma once
#include <ATen/ATen.h>

#include "data/byte_count.h"

namespace tg {

// ByteTable on a device; each tensor is [table].
struct DeviceByteTable {
  at::Tensor base_bytes;     // int64
  at::Tensor leading_space;  // bool
  at::Tensor boundary;       // bool
};

DeviceByteTable to_device(const ByteTable& table, at::Device device);

// Computes Σ base_bytes[y] + (leading_space[y] and not boundary[x]): x, y [B, T] int64 → [] int64,
// on their device.
at::Tensor count_bytes(const DeviceByteTable& table, const at::Tensor& x_bt,
                       const at::Tensor& y_bt);

}  // namespace tg
