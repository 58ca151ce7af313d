#pragma once
// The names of dtypes in files, of those that they may have: F32, F64, F16, BF16, I64, I32, I16,
// I8, U8, BOOL. Nothing for others.
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Of safetensors: F32.
std::optional<c10::ScalarType> safetensors_dtype(std::string_view name);
std::optional<std::string_view> safetensors_name(c10::ScalarType dtype);
std::string safetensors_names();  // F32, F64, …

// Of torch.save: torch.FloatStorage, without the module.
std::optional<c10::ScalarType> storage_dtype(std::string_view storage_class);
std::optional<std::string_view> storage_class(c10::ScalarType dtype);

}  // namespace tg
