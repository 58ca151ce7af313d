#include "model/declarations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/derived.h"

namespace tg {

namespace {

// A single layer has no skips: skip_weights are then [0, D].
Update update_of_control(const Declarations::Shape& shape) {
  const bool matrix = shape.size() == 2 && shape[0] * shape[1] > 0;
  return matrix ? Update::muon_by_shape(shape[0], shape[1]) : Update::scalar;
}

}  // namespace

std::optional<std::int64_t> BlockMatrices::place(std::int64_t block) const {
  const auto found = std::ranges::find(blocks, block);
  return found == blocks.end() ? std::nullopt : std::optional(found - blocks.begin());
}

ParameterId Declarations::table(const std::string& name, const Shape& shape, Update update,
                                Initial initial) {
  return whole({.name = name, .shape = shape, .update = update, .is_table = true}, initial,
               Quantization::int8);
}

ParameterId Declarations::projection(const std::string& name, std::int64_t outputs,
                                     std::int64_t inputs) {
  if (outputs == inputs) return {};
  const Initial initial{is_drawn_projection(outputs, inputs) ? InitDist::orthogonal
                                                             : InitDist::constant};
  return whole({.name = name, .shape = {outputs, inputs}, .update = Update::scalar}, initial,
               Quantization::int6);
}

ParameterId Declarations::control(const std::string& name, const Shape& shape, Initial initial,
                                  const std::optional<Update>& update) {
  return whole({.name = name, .shape = shape, .update = update.value_or(update_of_control(shape))},
               initial, Quantization::int8);
}

ParameterId Declarations::mix(const std::string& name, const Shape& shape, Initial initial) {
  return whole({.name = name, .shape = shape, .update = Update::scalar}, initial,
               Quantization::keep_fp32);
}

ParameterId Declarations::of_block(std::int64_t block, const std::string& name, const Shape& shape,
                                   Initial initial, Quantization quantization,
                                   const std::optional<Update>& update) {
  return whole({.name = fmt::format("blocks.{}.{}", block, name),
                .shape = shape,
                .update = update.value_or(update_of_control(shape))},
               initial, quantization, block);
}

ParameterId Declarations::head(const std::string& name, const Shape& shape, Update update,
                               bool exported, Initial initial) {
  return whole({.name = name, .shape = shape, .update = update, .exported = exported}, initial,
               Quantization::int8);
}

std::vector<BlockMatrices> Declarations::bank(const std::string& name,
                                              const std::vector<std::int64_t>& blocks,
                                              const Shape& shape, const std::vector<Kind>& kinds,
                                              const std::optional<Update>& update) {
  const auto count = std::ssize(kinds);
  Declaration bank{.name = name,
                   .shape = {count * std::ssize(blocks), shape[0], shape[1]},
                   .update = update.value_or(Update::muon_by_shape(shape[0], shape[1]))};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto matrix = static_cast<std::int64_t>(i);
    for (const auto& kind : kinds) {
      bank.parts.push_back({.name = fmt::format("blocks.{}.{}.weight", blocks[i], kind.name),
                            .initial = kind.initial,
                            .quantization = Quantization::int6,
                            .block = blocks[i],
                            .matrix = matrix});
      matrix += std::ssize(blocks);
    }
  }
  const auto id = add(std::move(bank));
  std::vector<BlockMatrices> matrices;
  for (std::int64_t kind = 0; kind < count; ++kind) matrices.push_back({id, kind, count, blocks});
  return matrices;
}

ParameterId Declarations::whole(Declaration declaration, Initial initial, Quantization quantization,
                                std::int64_t block) {
  declaration.parts = {{declaration.name, initial, quantization, block}};
  return add(std::move(declaration));
}

ParameterId Declarations::add(Declaration declaration) {
  all_.push_back(std::move(declaration));
  return {std::ssize(all_) - 1};
}

ParameterTable make_parameters(const std::vector<Declaration>& declarations, at::ScalarType storage,
                               at::Device device, std::vector<std::string> control_patterns) {
  const auto tables = at::TensorOptions(device).dtype(storage);
  const auto others = tables.dtype(storage == at::kDouble ? at::kDouble : at::kFloat);
  ParameterTable table(std::move(control_patterns));
  for (const auto& declared : declarations) {
    const auto value = at::empty(declared.shape, declared.is_table ? tables : others);
    const auto view = value.detach();
    std::vector<ParameterPart> parts;
    for (const auto& part : declared.parts) {
      parts.push_back({.name = part.name,
                       .value = part.matrix < 0 ? view : view[part.matrix],
                       .initial = part.initial,
                       .quantization = table.is_control(part.name) ? Quantization::keep_fp32
                                                                   : part.quantization,
                       .block = part.block});
    }
    table.add({.name = declared.name,
               .value = value,
               .update = table.is_control(declared.name) ? Update::scalar : declared.update,
               .exported = declared.exported,
               .parts = std::move(parts)});
  }
  return table;
}

}  // namespace tg
