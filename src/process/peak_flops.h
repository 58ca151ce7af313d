#pragma once
#include <string_view>

namespace tg {

// Returns the peak dense bf16 FLOP/s with fp32 accumulators of the GPU with the driver's name
// `gpu`, such as "NVIDIA H100 80GB HBM3", from NVIDIA's datasheets; 0: unknown.
double peak_bf16_flops(std::string_view gpu);

}  // namespace tg
