#pragma once
// What a recipe says of its parameters: the rows of the parameter table before there are tensors.
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
  std::int64_t matrix = -1;   // which of a bank; -1: the whole parameter
};
struct Declaration {
  std::string name;
  std::vector<std::int64_t> shape;
  Update update;          // unless a control pattern names it
  bool is_table = false;  // stored in the tables' dtype
  bool exported = true;
  std::vector<DeclaredPart> parts{};
};

// The matrices of one kind, one of each of these blocks, in a bank that has `kinds` of them, one
// after the other.
struct BlockMatrices {
  ParameterId bank;
  std::int64_t kind = 0, kinds = 1;
  std::vector<std::int64_t> blocks{};  // ascending

  std::int64_t count() const { return std::ssize(blocks); }
  // Where a block's matrix is among them; nothing where it has none.
  std::optional<std::int64_t> place(std::int64_t block) const;
  // Where a block's matrix, which it has, is among the bank's parts: these are block by block.
  std::size_t part(std::int64_t block) const {
    return static_cast<std::size_t>(*place(block) * kinds + kind);
  }
};

// Declares one parameter after the other; the table has the same order. The scripts' quantiser
// takes int6 where a name contains .mlp., .attn. or .proj., else int8.
class Declarations {
 public:
  using Shape = std::vector<std::int64_t>;
  // A matrix of a block, "blocks.i.NAME.weight".
  struct Kind {
    const char* name;
    Initial initial;
  };

  // An embedding table.
  ParameterId table(const std::string& name, const Shape& shape, Update update, Initial initial);
  // From `inputs` to `outputs` channels; none where they are equal.
  ParameterId projection(const std::string& name, std::int64_t outputs, std::int64_t inputs);
  // Gains, scales, mixes and gates: a matrix among them is Muon's where no control pattern names
  // it, unless `update` is given.
  ParameterId control(const std::string& name, const Shape& shape, Initial initial,
                      const std::optional<Update>& update = {});
  // Mixes that are AdamW's and kept in fp32, whatever the patterns name.
  ParameterId mix(const std::string& name, const Shape& shape, Initial initial);
  // A control of a block, "blocks.i.NAME".
  ParameterId of_block(std::int64_t block, const std::string& name, const Shape& shape,
                       Initial initial, Quantization quantization,
                       const std::optional<Update>& update = {});
  ParameterId head(const std::string& name, const Shape& shape, Update update, bool exported);
  // [kinds·blocks, rows, columns], of these blocks, ascending; updated as Update::muon_by_shape()
  // says unless `update` is given.
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

// The declared parameters, uninitialised, under the Python state dict's names and in its shapes.
// `storage` is the dtype of embedding tables (bf16 in bf16 runs); all else is fp32, or fp64 when
// storage is. A parameter whose name contains one of `control_patterns` is updated as a
// `scalar`, whatever it is, and the artifact keeps a part whose name does; a matrix among the
// control tensors (skip_weights, resid_mix, the gates' weights) whose name contains none is Muon's.
ParameterTable make_parameters(
    const std::vector<Declaration>& declarations, at::ScalarType storage, at::Device device,
    std::vector<std::string> control_patterns = default_control_patterns());

}  // namespace tg
