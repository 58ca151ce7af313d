#include "algorithm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tg {

namespace {

struct EnumeratorName {
  std::string_view kind;
  std::uint32_t value;
  std::string_view name;
};
// Names of tiles, stages and cluster shapes from cublasLt.h.
constexpr EnumeratorName kNames[] = {
#include "cublaslt_names.inc"
};

std::string name_of(std::string_view kind, std::uint32_t value) {
  const auto found = std::find_if(
      std::begin(kNames), std::end(kNames),
      [&](const EnumeratorName& entry) { return entry.kind == kind && entry.value == value; });
  return found == std::end(kNames) ? fmt::format("id {}", value) : std::string(found->name);
}

// Returns 0, the default, if the algorithm lacks the attribute.
template <class T>
std::uint32_t attribute(const cublasLtMatmulAlgo_t& algo,
                        cublasLtMatmulAlgoConfigAttributes_t which) {
  T value = 0;
  std::size_t written = 0;
  const auto status =
      cublasLtMatmulAlgoConfigGetAttribute(&algo, which, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace

std::string text_of(const LtAlgorithm& algorithm) {
  const auto value_of = [&](auto which) { return attribute<std::uint32_t>(algorithm.algo, which); };
  const auto short_of = [&](auto which) { return attribute<std::uint16_t>(algorithm.algo, which); };
  auto line = fmt::format("tile {}, stages {}, cluster {}, split-K {}",
                          name_of("MATMUL_TILE", value_of(CUBLASLT_ALGO_CONFIG_TILE_ID)),
                          name_of("MATMUL_STAGES", value_of(CUBLASLT_ALGO_CONFIG_STAGES_ID)),
                          name_of("CLUSTER_SHAPE", short_of(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)),
                          value_of(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  line += fmt::format(
      ", reduction {}, swizzle {}, option {}, inner {}, algorithm {}",
      value_of(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), value_of(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      value_of(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), short_of(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
      value_of(CUBLASLT_ALGO_CONFIG_ID));
  return line + fmt::format(", workspace {:.2f} MiB",
                            static_cast<double>(algorithm.workspace_bytes) / 0x1p20);
}

}  // namespace tg
