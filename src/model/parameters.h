#pragma once
// The parameter table: every weight of the model in one row, with all that optimizer, averaging,
// checkpoint and quantiser need to know of it.
#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace tg {

// What kind of weight a parameter is decides how it begins, and who updates it.
enum class ParameterKind {
  bank,        // [n, rows, columns], one matrix a layer: Muon
  table,       // embedding rows looked up by token: AdamW at the embedding rate
  projection,  // bigram.proj, ve_shared.proj: AdamW at SCALAR_LR
  scalar,      // gains, scales, mixes, gates: AdamW at SCALAR_LR
  head,        // lm_head: Adam at HEAD_LR, never decayed
  mtp_head,    // as the head; with RECORD_QUIRKS in no optimizer at all
};

struct Parameter {
  std::string name;  // the Python state dict's
  ParameterKind kind;
  // The kind whose optimizer updates it: its own, unless CONTROL_TENSOR_NAME_PATTERNS say
  // otherwise.
  ParameterKind stepped_as;
  at::Tensor value;  // a leaf that requires a gradient
};

class ParameterTable {
 public:
  // `control_patterns`: CONTROL_TENSOR_NAME_PATTERNS. A parameter whose name contains one of them
  // is stepped as a scalar, whatever its kind. A matrix among the scalars (skip_weights, resid_mix,
  // the gates' weights) whose name contains none is stepped by Muon, as a bank of one matrix.
  explicit ParameterTable(std::vector<std::string> control_patterns = default_control_patterns())
      : control_patterns_(std::move(control_patterns)) {}

  // Appends a parameter that requires a gradient. Names are unique.
  at::Tensor add(std::string name, ParameterKind kind, const at::Tensor& value);

  const std::vector<Parameter>& rows() const { return rows_; }
  const at::Tensor& operator[](const std::string& name) const;
  // The parameter, or an undefined tensor where the settings leave it out.
  at::Tensor find(const std::string& name) const;
  std::int64_t element_count() const;
  // Names and values without their gradients, sharing storage.
  std::vector<std::pair<std::string, at::Tensor>> named_values() const;
  // What the user may not have meant by other patterns than the default ones, a line each: patterns
  // that no name contains, and matrices that they leave to Muon.
  std::vector<std::string> pattern_notices() const;

 private:
  ParameterKind stepped_as(const std::string& name, ParameterKind kind,
                           const at::Tensor& value) const;

  std::vector<std::string> control_patterns_;
  std::vector<Parameter> rows_;
};

// All parameters that the settings ask for, in the Python state dict's names and shapes,
// uninitialised. `storage` is the dtype of embedding tables (bf16 in bf16 runs); everything else is
// fp32, or fp64 when storage is. `control_patterns`: see ParameterTable.
ParameterTable make_parameters(
    const ModelConfig& config, at::ScalarType storage, at::Device device,
    const std::vector<std::string>& control_patterns = default_control_patterns());

}  // namespace tg
