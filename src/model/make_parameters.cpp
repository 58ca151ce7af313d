// The tensors that a recipe declares.
#include <utility>

#include "model/declarations.h"

namespace tg {

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
