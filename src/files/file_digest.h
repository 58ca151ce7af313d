#pragma once
// Size and hash of a whole file, to detect damage and to compare files.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

struct FileDigest {
  std::uint64_t bytes = 0, xxh3 = 0;
  bool operator==(const FileDigest&) const = default;
};

// Reads the file once. Throws Error(missing_input) and Error(io).
FileDigest digest_of(const std::string& path);

// {"bytes": 12, "xxh3": "16 hexadecimal digits"}, for a JSON object that describes a file.
nlohmann::json digest_json(const FileDigest& digest);
// Reads digest_json()'s fields of `object`. Throws Error(bad_data) with the prefix `where`.
FileDigest digest_of_json(const nlohmann::json& object, const std::string& where);

}  // namespace tg
