#pragma once
// The parameter table: every weight of the model in one row, with all that its initialisation, its
// optimizer, the reduction of its gradient, the model's files and the quantiser need to know of it.
#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/derived.h"
#include "config/settings.h"
#include "ops/quantize/quantize.h"
#include "weights/named_tensors.h"

namespace tg {

// Update rule of a parameter. A step updates rules of a lower value first.
enum class UpdateRule { none, adamw, adam, muon };

// How a parameter is updated: the rule, and the settings that it goes by.
struct Update {
  UpdateRule rule = UpdateRule::none;
  double OptimConfig::*lr = nullptr;                     // the base rate
  double (*weight_decay)(const OptimConfig&) = nullptr;  // decoupled; null: never decayed
  double lr_multiplier = 1;                              // of this parameter's rate
  // Steps between updates, which take the sum of their gradients; null: one.
  std::int64_t OptimConfig::*every = nullptr;

  // Whether the rule takes whole matrices, [n, rows, columns] or [rows, columns].
  bool by_matrix() const { return rule == UpdateRule::muon; }
  // Whether it differs from another in nothing but lr_multiplier.
  bool has_settings_of(const Update& other) const;
  bool operator==(const Update&) const = default;

  // AdamW's, all but Muon's.
  static const Update muon, embedding, tied_embedding, scalar, head;
  static const Update none;  // no optimizer at all
  // Muon's, of matrices [rows, columns]: its steps are √max(1, rows/columns) times as long, as in
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

// Where the sum of all ranks' gradients goes.
enum class GradientReduction {
  reduce_scatter,  // to each rank its shard
  all_reduce,      // to every rank the whole
  none,            // nowhere: each rank keeps its own gradient
};

// How a tensor begins.
enum class InitDist {
  constant,       // `number` everywhere
  first_row,      // `number` in the first row or element, zero in the others
  torch_default,  // as torch.nn.Embedding and torch.nn.Linear begin
  normal,         // standard deviation `number`
  orthogonal,     // as torch.nn.init.orthogonal_
  uniform,        // within ±`number`
};
struct Initial {
  InitDist dist;
  double number = 0;
  bool transposed = false;  // a uniform draw is of the script's matrix [columns, rows]
};

// A row of the table, as its declaration returned it (declarations.h). By default: none.
struct ParameterId {
  std::int64_t row = -1;
  explicit operator bool() const { return row >= 0; }
};

// A parameter, or one matrix of a bank, by its name in the reference implementation's unbanked
// state dict.
struct ParameterPart {
  std::string name;
  at::Tensor value;  // a view without gradient: writing to it sets the parameter
  Initial initial;
  Quantization quantization;
  std::int64_t block = -1;  // whose it is; -1: no block's
};

struct Parameter {
  std::string name;  // the Python state dict's
  at::Tensor value;  // in the dtype that it is stored in; a leaf that requires a gradient
  Update update;
  bool exported = true;                // part of the final model's files
  std::vector<ParameterPart> parts{};  // the whole, each element in one of them

  // What is stepped by matrices and what is large is sharded, all else that is stepped replicated.
  GradientReduction reduction() const;
};

using ParameterRows = std::vector<const Parameter*>;

class ParameterTable {
 public:
  // `control_patterns`: CONTROL_TENSOR_NAME_PATTERNS.
  explicit ParameterTable(std::vector<std::string> control_patterns = default_control_patterns())
      : control_patterns_(std::move(control_patterns)) {}

  // Appends a row, whose value then requires a gradient. Names are unique.
  void add(Parameter row);

  const std::vector<Parameter>& rows() const { return rows_; }
  // Undefined where there is none.
  at::Tensor operator[](ParameterId id) const {
    return id ? rows_[static_cast<std::size_t>(id.row)].value : at::Tensor();
  }
  const at::Tensor& operator[](const std::string& name) const;
  // The parameter, or an undefined tensor where the settings leave it out.
  at::Tensor find(const std::string& name) const;
  std::int64_t element_count() const;
  // Names and values without their gradients, sharing storage.
  NamedTensors named_values() const;
  // The parameters as constants, sharing storage: none requires a gradient.
  ParameterTable frozen() const;

  // Whether `name` contains one of the control patterns.
  bool is_control(const std::string& name) const;
  // What the user may not have meant by other patterns than `usual`, the recipe's, a line each:
  // patterns that no name contains, and matrices that `usual` names and they leave to Muon.
  std::vector<std::string> pattern_notices(
      const std::vector<std::string>& usual = default_control_patterns()) const;

 private:
  std::vector<std::string> control_patterns_;
  std::vector<Parameter> rows_;
};

// The tensors of the artifact: the parts of all exported parameters, in the table's order. Through
// the views they are read, and written when an artifact is loaded.
std::vector<ParameterPart> unbanked(const ParameterTable& table);

}  // namespace tg
