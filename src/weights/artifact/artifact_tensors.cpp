#include "weights/artifact/artifact_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "ops/quantize/rounding.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

std::string text_of(const at::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), shape_text(tensor.sizes()));
}

void check_levels(const at::Tensor& q, int min_level, int max_level, const std::string& where) {
  const at::Tensor levels = q.contiguous();
  const auto* const first = static_cast<const int8_t*>(levels.const_data_ptr());
  const auto [low, high] = std::minmax_element(first, first + levels.numel());
  REQUIRE(*low >= min_level && *high <= max_level, ExitCode::bad_data,
          "{}: expected levels from {} to {}, found {} to {}", where, min_level, max_level, *low,
          *high);
}

bool has_row_scales(const QuantizedWeight& weight) {
  const auto& [q, scale] = weight;
  return scale.is_floating_point() && scale.dim() == 1 && scale.size(0) == q.size(0);
}

bool has_one_scale(const QuantizedWeight& weight) {
  const auto& scale = weight.scale;
  return scale.is_floating_point() && scale.dim() <= 1 && scale.numel() == 1;
}

// Returns whether there is one scale for each group of consecutive elements, all groups of equal
// size.
bool has_group_scales(const QuantizedWeight& weight) {
  const auto& [q, scale] = weight;
  return scale.is_floating_point() && scale.dim() == 1 && scale.size(0) > 0 &&
         q.numel() % scale.size(0) == 0;
}

void check_correction(const LowRank& correction, const at::Tensor& w, const std::string& where) {
  const auto& [asymmetric, a, b] = correction;
  const bool matrices = a.q.scalar_type() == at::kChar && b.q.scalar_type() == at::kChar &&
                        a.q.dim() == 2 && b.q.dim() == 2;
  const bool fits = matrices && a.q.size(0) == w.size(0) && b.q.size(1) == w.size(1) &&
                    a.q.size(1) == b.q.size(0) && a.q.size(1) > 0 &&
                    a.q.size(1) <= std::min(w.size(0), w.size(1)) &&
                    (asymmetric ? has_one_scale(a) && has_group_scales(b)
                                : has_row_scales(a) && has_row_scales(b));
  REQUIRE(fits, ExitCode::bad_data,
          "{}: expected int8 factors of {} with their scales, found A {} with {} and B {} with {}",
          where, shape_text(w.sizes()), text_of(a.q), text_of(a.scale), text_of(b.q),
          text_of(b.scale));
  if (!asymmetric) return;
  check_levels(a.q, -2, 1, where + " A");
  check_levels(b.q, -8, 7, where + " B");
}

}  // namespace

void add_stored(PickleDict& to, std::string name, const at::Tensor& tensor, ArtifactStats& stats) {
  stats.payload_bytes += tensor.nbytes();
  const auto stored = tensor.to(at::kCPU);
  REQUIRE(!first_nonfinite({{name, stored}}), ExitCode::internal,
          "{}: not finite as the artifact's {} (expected finite numbers, found NaN or infinity); "
          "no artifact was written",
          name, c10::toString(stored.scalar_type()));
  to.add(std::move(name), stored);
}

const PickleDict& dict_in(const PickleDict& parent, std::string_view key, const std::string& path) {
  const PickleValue* value = parent.find(key);
  REQUIRE(value, ExitCode::bad_data, "{}: expected a dict '{}', found none", path, key);
  return value->as_dict(fmt::format("{}: '{}'", path, key));
}

TensorDict::TensorDict(const PickleDict& dict, const std::string& key, const std::string& path)
    : where_(fmt::format("{}: '{}'", path, key)) {
  for (const auto& [name, value] : dict.items) tensors_.emplace(name, value.as_tensor(where(name)));
}

at::Tensor TensorDict::take(const std::string& name) {
  const auto found = tensors_.extract(name);
  REQUIRE(found, ExitCode::bad_data, "{}: expected a tensor, found none", where(name));
  return found.mapped();
}

at::Tensor TensorDict::take_floating(const std::string& name) {
  const at::Tensor tensor = take(name);
  REQUIRE(tensor.is_floating_point(), ExitCode::bad_data,
          "{}: expected floating-point numbers, found {}", where(name),
          c10::toString(tensor.scalar_type()));
  return tensor;
}

void TensorDict::expect_all_taken() const {
  REQUIRE(tensors_.empty(), ExitCode::bad_data, "{}: no part of an artifact",
          where(tensors_.begin()->first));
}

std::string TensorDict::where(const std::string& name) const {
  return fmt::format("{} '{}'", where_, escaped(name));
}

void ArtifactWeights::add(const std::string& name, const at::Tensor& tensor) {
  count(name, tensor);
  tensors_.emplace_back(name, tensor.to(at::kFloat).contiguous());
}

void ArtifactWeights::add(const std::string& name, const QuantizedWeight& weight) {
  const auto& [q, scale] = weight;
  const bool fits =
      q.scalar_type() == at::kChar && scale.is_floating_point() &&
      (scale.dim() == 0 || (scale.dim() == 1 && q.dim() > 0 && scale.size(0) == q.size(0)));
  REQUIRE(fits, ExitCode::bad_data,
          "{}: '{}': expected int8 with a scale a row or one scale, found {} with {}", path_,
          escaped(name), text_of(q), text_of(scale));
  count(name, q);
  tensors_.emplace_back(name, dequantize(weight));
}

void ArtifactWeights::add(const std::string& name, const GptqWeight& weight) {
  const auto& [q, scale] = weight.weight;
  const std::string where = fmt::format("{}: '{}'", path_, escaped(name));
  const bool fits = q.scalar_type() == at::kChar && q.dim() == 2 && q.numel() > 0 &&
                    has_row_scales(weight.weight);
  REQUIRE(fits, ExitCode::bad_data,
          "{}: expected an int8 matrix with a scale a row, found {} with {}", where, text_of(q),
          text_of(scale));
  const int levels = static_cast<int>(symmetric_levels(weight.bits));
  check_levels(q, -levels, levels, where);
  if (weight.correction) check_correction(*weight.correction, q, where);
  count(name, q);
  tensors_.emplace_back(name, dequantize(weight));
}

void ArtifactWeights::count(const std::string& name, const at::Tensor& tensor) {
  REQUIRE(names_.insert(name).second, ExitCode::bad_data, "{}: '{}' appears twice", path_,
          escaped(name));
  REQUIRE(tensor.numel() <= max_elements_ - elements_, ExitCode::bad_data,
          "{}: expected at most the model's {} elements, found more; check the model's settings",
          path_, max_elements_);
  elements_ += tensor.numel();
}

}  // namespace tg
