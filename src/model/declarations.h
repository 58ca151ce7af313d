#pragma once
// Parameters as a recipe declares them: the rows of the parameter table before tensors exist.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/parameters.h"

namespace tg {

struct DeclaredPart {
  std::string name;
  Initial initial;
  Quantization quantization;  // unless a control pattern names it
  std::int64_t block = -1;    // ParameterPart::block
  std::int64_t matrix = -1;   // index in a bank; -1: the whole parameter
};
struct Declaration {
  std::string name;
  std::vector<std::int64_t> shape;
  Update update;          // unless a control pattern names it
  bool is_table = false;  // stored in the dtype of embedding tables
  bool exported = true;
  std::vector<DeclaredPart> parts{};
};

// The matrices of one kind, one per block of `blocks`, in a bank that stores `kinds` kinds one
// after the other.
struct BlockMatrices {
  ParameterId bank;
  std::int64_t kind = 0, kinds = 1;
  std::vector<std::int64_t> blocks{};  // ascending

  std::int64_t count() const { return std::ssize(blocks); }
  // Index of the block's matrix among these matrices; nothing if the block has none.
  std::optional<std::int64_t> place(std::int64_t block) const;
  // Index of the block's matrix among the bank's parts, which are sorted by block. Requires that
  // the block has one.
  std::size_t part(std::int64_t block) const {
    return static_cast<std::size_t>(*place(block) * kinds + kind);
  }
};

// Declares parameters in the order of the table. The reference implementation's quantizer uses int6
// for names that contain .mlp., .attn. or .proj., else int8.
class Declarations {
 public:
  using Shape = std::vector<std::int64_t>;
  // A matrix of a block, named "blocks.i.NAME.weight".
  struct Kind {
    const char* name;
    Initial initial;
  };

  // An embedding table.
  ParameterId table(const std::string& name, const Shape& shape, Update update, Initial initial);
  // From `inputs` to `outputs` channels; returns none if they are equal.
  ParameterId projection(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  // Gains, scales, mixes and gates. Muon updates a matrix whose name contains no control pattern,
  // unless `update` is given.
  ParameterId control(const std::string& name, const Shape& shape, Initial initial,
                      const std::optional<Update>& update = {});
  // Mixes: updated by AdamW and kept in fp32, whatever the control patterns name.
  ParameterId mix(const std::string& name, const Shape& shape, Initial initial);
  // A control parameter of a block, named "blocks.i.NAME".
  ParameterId of_block(std::int64_t block, const std::string& name, const Shape& shape,
                       Initial initial, Quantization quantization,
                       const std::optional<Update>& update = {});
  ParameterId head(const std::string& name, const Shape& shape, Update update, bool exported,
                   Initial initial = {InitDist::constant, 0});
  // Ties a row to another one (Update::tied_to).
  void tie(ParameterId row, ParameterId to) {
    all_[static_cast<std::size_t>(row.row)].update.tied_to = to;
  }
  // A bank [kinds·blocks, rows, columns] for these blocks, ascending; updated by
  // Update::muon_by_shape() unless `update` is given.
  std::vector<BlockMatrices> bank(const std::string& name, const std::vector<std::int64_t>& blocks,
                                  const Shape& shape, const std::vector<Kind>& kinds,
                                  const std::optional<Update>& update = {});

  std::vector<Declaration> take() { return std::move(all_); }

 private:
  ParameterId add(Declaration declaration);
  ParameterId whole(Declaration declaration, Initial initial, Quantization quantization,
                    std::int64_t block = -1);

  std::vector<Declaration> all_;
};

// Allocates the declared parameters, uninitialised, with the names and shapes of the Python state
// dict. `storage`: dtype of embedding tables (bf16 in bf16 runs); all others are fp32, or fp64 if
// `storage` is. A parameter whose name contains one of `control_patterns` is updated as
// Update::scalar, and a part whose name contains one stays fp32 in the artifact. Muon updates a
// matrix among the control tensors (skip_weights, resid_mix, gate weights) whose name contains
// none.
ParameterTable make_parameters(
    const std::vector<Declaration>& declarations, at::ScalarType storage, at::Device device,
    std::vector<std::string> control_patterns = default_control_patterns());

}  // namespace tg
