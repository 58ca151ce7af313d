#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tg {

// Fields of a JSON object, checked. Errors: bad_data, beginning with `where`.
class JsonFields {
 public:
  // Refers to the object.
  JsonFields(const nlohmann::json& object, std::string where);

  const nlohmann::json& get(const std::string& name) const;
  std::int64_t count(const std::string& name) const;  // 0 to 2^63 - 1
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  // The name of a file beside the one that is read: letters, digits, "._-", so that it leads out of
  // no folder.
  std::string file_name(const std::string& name) const;
  // For what the type alone does not say: fails with what was expected, and found, unless `good`.
  void require(bool good, const std::string& name, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  const std::string where_;
};

}  // namespace tg
