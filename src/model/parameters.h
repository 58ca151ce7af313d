#pragma once
// The parameter table: one row per weight of the model, with the metadata that initialisation,
// optimizer, gradient reduction, files and quantizer read.
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/derived.h"
#include "config/settings.h"
#include "ops/quantize/quantize.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Update rule of a parameter. A step applies rules in ascending order of value.
enum class UpdateRule { none, constant, adamw, adam, muon };

// Index of a row of the table, as its declaration returns it (declarations.h). Default: none.
struct ParameterId {
  std::int64_t row = -1;
  explicit operator bool() const { return row >= 0; }
  bool operator==(const ParameterId&) const = default;
};

// Decay of the first and second moments.
struct AdamBetas {
  double beta1, beta2;
  bool operator==(const AdamBetas&) const = default;
};

// Multipliers of a part of a bank, in addition to the bank's own.
struct PartMultipliers {
  double lr = 1, wd = 1;
  bool operator==(const PartMultipliers&) const = default;
};

// How a parameter is updated: the rule and its settings.
struct Update {
  UpdateRule rule = UpdateRule::none;
  double OptimConfig::*lr = nullptr;                     // the base rate
  double (*weight_decay)(const OptimConfig&) = nullptr;  // decoupled; null: never decayed
  double lr_multiplier = 1;                              // multiplies `lr`
  double wd_multiplier = 1;                              // multiplies `weight_decay`
  std::optional<AdamBetas> betas{};                      // nullopt: BETA1 and BETA2
  // Steps between updates; gradients accumulate in between. Null: 1.
  std::int64_t OptimConfig::*every = nullptr;
  // Multipliers of k equal parts of a bank's matrices, in order. Empty: one part.
  std::vector<PartMultipliers> parts{};
  // Muon updates each matrix as this many matrices of consecutive rows, such as groups of heads.
  std::int64_t row_parts = 1;
  // NorMuon's second moments of square matrices: one per row, as of tall ones; false: one per
  // column, as of wide ones.
  bool square_moments_by_row = false;
  // The row that this one equals until it is untied (model/tied_rows.h). None: never tied.
  ParameterId tied_to{};

  bool optimized() const { return rule != UpdateRule::none && rule != UpdateRule::constant; }
  // Returns whether the rule updates whole matrices, [n, rows, columns] or [rows, columns].
  bool by_matrix() const { return rule == UpdateRule::muon; }
  // Returns whether the updates differ at most in multipliers.
  bool differs_only_in_multipliers(const Update& other) const;
  bool operator==(const Update&) const = default;

  // Updates by AdamW, except muon.
  static const Update muon, embedding, tied_embedding, scalar, head;
  static const Update none;      // has a gradient, but no optimizer
  static const Update constant;  // has no gradient
  // Muon for matrices [rows, columns], with the learning rate times √max(1, rows/columns), as in
  // its reference implementation (Jordan et al. 2024).
  static Update muon_by_shape(std::int64_t rows, std::int64_t columns);
};
constexpr double muon_wd(const OptimConfig& optim) {
  return optim.muon_wd;
}
constexpr double adam_wd(const OptimConfig& optim) {
  return optim.adam_wd;
}
constexpr Update by_adamw(double OptimConfig::*lr, double (*weight_decay)(const OptimConfig&)) {
  return {.rule = UpdateRule::adamw,
          .lr = lr,
          .weight_decay = weight_decay,
          .every = &OptimConfig::adam_every};
}
inline constexpr Update Update::muon{UpdateRule::muon, &OptimConfig::matrix_lr, muon_wd};
inline constexpr Update Update::embedding = by_adamw(&OptimConfig::embed_lr, embed_wd);
inline constexpr Update Update::tied_embedding = by_adamw(&OptimConfig::tied_embed_lr, embed_wd);
inline constexpr Update Update::scalar = by_adamw(&OptimConfig::scalar_lr, adam_wd);
inline constexpr Update Update::head = by_adamw(&OptimConfig::head_lr, nullptr);
inline constexpr Update Update::none{};
inline constexpr Update Update::constant{.rule = UpdateRule::constant};

// How gradients are reduced over ranks.
enum class GradientReduction {
  reduce_scatter,  // each rank receives its shard of the sum
  all_reduce,      // each rank receives the whole sum
  none,            // not reduced: each rank keeps its own gradient
};

// Initial distribution of a tensor.
enum class InitDist {
  constant,       // `number` everywhere
  first_row,      // `number` in the first row or element, zero elsewhere
  torch_default,  // default of torch.nn.Embedding and torch.nn.Linear
  normal,         // standard deviation `number`
  normal_sign,    // sign of a standard normal: ±1, seldom 0
  orthogonal,     // torch.nn.init.orthogonal_
  uniform,        // within ±`number`
  values,         // Initial::values, in order
};
struct Initial {
  InitDist dist;
  double number = 0;
  // A normal or uniform draw has the shape of the script's matrix [columns, rows].
  bool transposed = false;
  bool in_table_dtype = false;          // a normal draw is drawn in the dtype of embedding tables
  double factor = 1;                    // multiplies a normal draw, in that dtype
  std::span<const double> values = {};  // constants, which outlive it
};

// A parameter, or one matrix of a bank, named as in the reference implementation's unbanked state
// dict.
struct ParameterPart {
  std::string name;
  at::Tensor value;  // a view without gradient: writing to it sets the parameter
  Initial initial;
  Quantization quantization;
  std::int64_t block = -1;  // index of its block; -1: none
};

struct Parameter {
  std::string name;  // as in the Python state dict
  at::Tensor value;  // in its storage dtype; a leaf that requires a gradient
  Update update;
  bool exported = true;                // whether the final model's files include it
  std::vector<ParameterPart> parts{};  // partition of the value

  // reduce_scatter for parameters updated by matrix and for large ones, all_reduce for the rest.
  GradientReduction reduction() const;
};

using ParameterRows = std::vector<const Parameter*>;

class ParameterTable {
 public:
  // `control_patterns`: CONTROL_TENSOR_NAME_PATTERNS.
  explicit ParameterTable(std::vector<std::string> control_patterns = default_control_patterns())
      : control_patterns_(std::move(control_patterns)) {}

  // Appends a row and sets its value's requires_grad. Names are unique.
  void add(Parameter row);

  const std::vector<Parameter>& rows() const { return rows_; }
  // Undefined if `id` is none.
  at::Tensor operator[](ParameterId id) const {
    return id ? rows_[static_cast<std::size_t>(id.row)].value : at::Tensor();
  }
  const at::Tensor& operator[](const std::string& name) const;
  // The parameter, or an undefined tensor if the settings leave it out.
  at::Tensor find(const std::string& name) const;
  std::int64_t element_count() const;
  // Names and values without gradients, sharing storage.
  NamedTensors named_values() const;
  // A copy whose values are detached views, sharing storage: none requires a gradient.
  ParameterTable as_constants() const;

  // Returns whether `name` contains one of the control patterns.
  bool is_control(const std::string& name) const;
  // Warnings, one line each, if the patterns differ from `usual`, the recipe's: patterns that no
  // name contains, and matrices named by `usual` that Muon now updates.
  std::vector<std::string> pattern_notices(
      const std::vector<std::string>& usual = default_control_patterns()) const;

 private:
  std::vector<std::string> control_patterns_;
  std::vector<Parameter> rows_;
};

// The tensors of the artifact: the parts of all exported parameters, in the table's order, as views
// that are read for export and written when an artifact is loaded.
std::vector<ParameterPart> unbanked(const ParameterTable& table);

}  // namespace tg
