#include "model/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

#include "base/is_in.h"

namespace tg {

namespace {

// From this size on, a separate collective with a sharded AdamW update costs less than packing the
// gradient with others and updating all of it on every rank.
constexpr std::int64_t kShardedElements = 1 << 20;

bool contains(const std::string& name, const std::string& pattern) {
  return name.find(pattern) != std::string::npos;
}

}  // namespace

bool Update::differs_only_in_multipliers(const Update& other) const {
  auto rescaled = *this;
  rescaled.lr_multiplier = other.lr_multiplier;
  rescaled.wd_multiplier = other.wd_multiplier;
  rescaled.parts = other.parts;
  return rescaled == other;
}

Update Update::muon_by_shape(std::int64_t rows, std::int64_t columns) {
  auto update = muon;
  const double shape = static_cast<double>(rows) / static_cast<double>(columns);
  update.lr_multiplier = std::sqrt(std::max(1.0, shape));
  return update;
}

GradientReduction Parameter::reduction() const {
  if (!update.optimized()) return GradientReduction::none;
  return update.by_matrix() || value.numel() >= kShardedElements ? GradientReduction::reduce_scatter
                                                                 : GradientReduction::all_reduce;
}

void ParameterTable::add(Parameter row) {
  row.value.set_requires_grad(row.update.rule != UpdateRule::constant);
  rows_.push_back(std::move(row));
}

bool ParameterTable::is_control(const std::string& name) const {
  return std::any_of(control_patterns_.begin(), control_patterns_.end(),
                     [&](const std::string& pattern) { return contains(name, pattern); });
}

std::vector<std::string> ParameterTable::pattern_notices(
    const std::vector<std::string>& usual) const {
  std::vector<std::string> unmatched, left_to_muon, lines;
  for (const auto& pattern : control_patterns_) {
    const bool known = is_in(usual, pattern);
    const bool found = std::any_of(rows_.begin(), rows_.end(), [&](const Parameter& row) {
      return contains(row.name, pattern);
    });
    if (!known && !found) unmatched.push_back(pattern);
  }
  for (const auto& row : rows_) {
    const bool bank = row.value.dim() == 3;
    const bool named = std::any_of(usual.begin(), usual.end(), [&](const std::string& pattern) {
      return contains(row.name, pattern);
    });
    if (row.update.by_matrix() && !bank && named) left_to_muon.push_back(row.name);
  }
  if (!unmatched.empty()) {
    lines.push_back(fmt::format("CONTROL_TENSOR_NAME_PATTERNS: no parameter's name contains {}",
                                fmt::join(unmatched, ", ")));
  }
  if (!left_to_muon.empty()) {
    lines.push_back(fmt::format("CONTROL_TENSOR_NAME_PATTERNS leave out {}: Muon steps them",
                                fmt::join(left_to_muon, ", ")));
  }
  return lines;
}

const at::Tensor& ParameterTable::operator[](const std::string& name) const {
  for (const auto& row : rows_) {
    if (row.name == name) return row.value;
  }
  assert(!"no parameter of that name");
  std::abort();
}

at::Tensor ParameterTable::find(const std::string& name) const {
  for (const auto& row : rows_) {
    if (row.name == name) return row.value;
  }
  return {};
}

std::int64_t ParameterTable::element_count() const {
  std::int64_t count = 0;
  for (const auto& row : rows_) count += row.value.numel();
  return count;
}

ParameterTable ParameterTable::as_constants() const {
  auto constants = *this;
  for (auto& row : constants.rows_) row.value = row.value.detach();
  return constants;
}

NamedTensors ParameterTable::named_values() const {
  NamedTensors values;
  for (const auto& row : rows_) values.emplace_back(row.name, row.value.detach());
  return values;
}

std::vector<ParameterPart> unbanked(const ParameterTable& table) {
  std::vector<ParameterPart> parts;
  for (const auto& row : table.rows()) {
    if (row.exported) parts.insert(parts.end(), row.parts.begin(), row.parts.end());
  }
  return parts;
}

}  // namespace tg
