#pragma once
// Content of a torch.save file of plain data as a tree: None, bool, int, float, str, tensor, list
// or tuple, dict with str keys (in order; also for an OrderedDict).
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tg {

struct PickleValue;

struct PickleList {
  std::vector<PickleValue> items;
  bool is_tuple = false;
};

struct PickleDict {
  std::vector<std::pair<std::string, PickleValue>> items;

  const PickleValue* find(std::string_view key) const;  // null: absent
  PickleValue& add(std::string key, PickleValue value);
};

struct PickleValue : std::variant<std::monostate, bool, int64_t, double, std::string, at::Tensor,
                                  PickleList, PickleDict> {
  using variant::variant;
  PickleValue(const char* text)
      : variant(std::string(text)) {}  // a const char* would otherwise convert to bool
  PickleValue(int number) : variant(int64_t{number}) {}

  // Returns None, bool, int, float, str, tensor, list, tuple or dict.
  std::string_view kind() const;
  // Return the value, which must be of that kind. Throws Error(bad_data) with the prefix `where`
  // ("FILE: 'w'").
  const std::string& as_string(std::string_view where) const;
  const at::Tensor& as_tensor(std::string_view where) const;
  const PickleDict& as_dict(std::string_view where) const;
};

}  // namespace tg
