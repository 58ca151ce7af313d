#pragma once
#include <string_view>

namespace tg {

// Dense bf16 products with fp32 accumulators a second of the GPU of that name (as the driver says
// it, "NVIDIA H100 80GB HBM3"), from NVIDIA's datasheets; 0: unknown.
double peak_bf16_flops(std::string_view gpu);

}  // namespace tg
