#pragma once
// Dtype names in files, for the supported dtypes: F32, F64, F16, BF16, I64, I32, I16, I8, U8, BOOL.
// Returns nullopt for others.
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Names in safetensors files: F32.
std::optional<c10::ScalarType> safetensors_dtype(std::string_view name);
std::optional<std::string_view> safetensors_name(c10::ScalarType dtype);
std::string safetensors_names();  // F32, F64, …

// Names in torch.save files: torch.FloatStorage, without the module.
std::optional<c10::ScalarType> storage_dtype(std::string_view storage_class);
std::optional<std::string_view> storage_class(c10::ScalarType dtype);

}  // namespace tg
