#pragma once
// The supported dtypes and their names in files.
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <string_view>

namespace tg {

struct DtypeNames {
  c10::ScalarType dtype;
  std::string_view safetensors;
  std::string_view storage;  // class in torch.save files, without its module torch
};
inline constexpr DtypeNames kDtypes[] = {
    {at::kFloat, "F32", "FloatStorage"}, {at::kDouble, "F64", "DoubleStorage"},
    {at::kHalf, "F16", "HalfStorage"},   {at::kBFloat16, "BF16", "BFloat16Storage"},
    {at::kLong, "I64", "LongStorage"},   {at::kInt, "I32", "IntStorage"},
    {at::kShort, "I16", "ShortStorage"}, {at::kChar, "I8", "CharStorage"},
    {at::kByte, "U8", "ByteStorage"},    {at::kBool, "BOOL", "BoolStorage"},
};

// Returns the dtype whose `field` is `value`; null: it is not supported.
template <class Field>
const DtypeNames* find_dtype(Field DtypeNames::*field, const Field& value) {
  const auto* const found = std::ranges::find(kDtypes, value, field);
  return found == std::end(kDtypes) ? nullptr : found;
}

}  // namespace tg
