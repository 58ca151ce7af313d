#pragma once
// Size and hash of a whole file, which find damage and tell files apart.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

struct FileDigest {
  std::uint64_t bytes = 0, xxh3 = 0;
  bool operator==(const FileDigest&) const = default;
};

// Reads the file once. Errors: missing_input, io.
FileDigest digest_of(const std::string& path);

// {"bytes": 12, "xxh3": "16 hexadecimal digits"}, for a JSON object that describes a file.
nlohmann::json digest_json(const FileDigest& digest);
// These fields of `object`. Errors: bad_data, beginning with `where`.
FileDigest digest_of_json(const nlohmann::json& object, const std::string& where);

}  // namespace tg
