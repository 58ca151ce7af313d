#include "weights/tensors/dtype_names.h"

#include <algorithm>

namespace tg {
namespace {

using c10::ScalarType;

struct Row {
  ScalarType dtype;
  std::string_view safetensors, storage;
};
constexpr Row kRows[] = {
    {ScalarType::Float, "F32", "FloatStorage"}, {ScalarType::Double, "F64", "DoubleStorage"},
    {ScalarType::Half, "F16", "HalfStorage"},   {ScalarType::BFloat16, "BF16", "BFloat16Storage"},
    {ScalarType::Long, "I64", "LongStorage"},   {ScalarType::Int, "I32", "IntStorage"},
    {ScalarType::Short, "I16", "ShortStorage"}, {ScalarType::Char, "I8", "CharStorage"},
    {ScalarType::Byte, "U8", "ByteStorage"},    {ScalarType::Bool, "BOOL", "BoolStorage"},
};

// Returns the field `to` of the row whose field `from` is `value`.
template <class From, class To>
std::optional<To> look_up(From Row::*from, const From& value, To Row::*to) {
  const auto* const row = std::ranges::find(kRows, value, from);
  return row == std::end(kRows) ? std::nullopt : std::optional(row->*to);
}

}  // namespace

std::optional<ScalarType> safetensors_dtype(std::string_view name) {
  return look_up(&Row::safetensors, name, &Row::dtype);
}
std::optional<std::string_view> safetensors_name(ScalarType dtype) {
  return look_up(&Row::dtype, dtype, &Row::safetensors);
}
std::string safetensors_names() {
  std::string names;
  for (const auto& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.safetensors;
  }
  return names;
}

std::optional<ScalarType> storage_dtype(std::string_view storage_class) {
  return look_up(&Row::storage, storage_class, &Row::dtype);
}
std::optional<std::string_view> storage_class(ScalarType dtype) {
  return look_up(&Row::dtype, dtype, &Row::storage);
}

}  // namespace tg
