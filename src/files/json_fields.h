#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tg {

// Checked access to the fields of a JSON object. Throws Error(bad_data) with the prefix `where`.
class JsonFields {
 public:
  // Keeps a reference to the object.
  JsonFields(const nlohmann::json& object, std::string where);

  const nlohmann::json& get(const std::string& name) const;
  std::int64_t count(const std::string& name) const;  // 0 to 2^63 - 1
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  // Reads the name of a file in the same folder: letters, digits and "._-" only, so that it cannot
  // leave the folder.
  std::string file_name(const std::string& name) const;
  // Checks what the type alone does not say: throws, with the expected and the found value, unless
  // `good`.
  void require(bool good, const std::string& name, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  const std::string where_;
};

}  // namespace tg
