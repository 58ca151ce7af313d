#include "model/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/is_in.h"

namespace tg {

namespace {

// From this size on, a separate collective with a sharded AdamW update costs less than packing the
// gradient with others and updating all of it on every rank.
constexpr std::int64_t kShardedElements = 1 << 20;

bool contains_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return name.find(pattern) != std::string::npos;
  });
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
  // A single matrix has no parts for the ranks; each computes its update.
  const bool sharded = update.by_matrix() ? value.dim() == 3 : value.numel() >= kShardedElements;
  return sharded ? GradientReduction::reduce_scatter : GradientReduction::all_reduce;
}

void ParameterTable::add(Parameter row) {
  row.value.set_requires_grad(row.update.rule != UpdateRule::constant);
  rows_.push_back(std::move(row));
}

bool ParameterTable::is_control(const std::string& name) const {
  return contains_any(name, control_patterns_);
}

std::vector<std::string> ParameterTable::pattern_notices(
    const std::vector<std::string>& usual) const {
  std::vector<std::string> unmatched, left_to_muon, lines;
  for (const auto& pattern : control_patterns_) {
    const auto has_it = [&](const Parameter& row) { return contains_any(row.name, {pattern}); };
    if (!is_in(usual, pattern) && std::ranges::none_of(rows_, has_it)) unmatched.push_back(pattern);
  }
  for (const auto& row : rows_) {
    const bool bank = row.value.dim() == 3;
    if (row.update.by_matrix() && !bank && contains_any(row.name, usual))
      left_to_muon.push_back(row.name);
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
  const auto row = std::ranges::find(rows_, name, &Parameter::name);
  if (row == rows_.end()) std::abort();  // no parameter of that name
  return row->value;
}

at::Tensor ParameterTable::find(const std::string& name) const {
  const auto row = std::ranges::find(rows_, name, &Parameter::name);
  return row == rows_.end() ? at::Tensor() : row->value;
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
