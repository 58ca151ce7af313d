#include "weights/pickle/pickle_value.h"

#include "base/error.h"

namespace tg {
namespace {

template <typename T>
const T& expect(const PickleValue& value, std::string_view kind, std::string_view where) {
  const T* found = std::get_if<T>(&value);
  REQUIRE(found, ExitCode::bad_data, "{}: expected a {}, found {}", where, kind, value.kind());
  return *found;
}

}  // namespace

const PickleValue* PickleDict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (name == key) return &value;
  return nullptr;
}

PickleValue& PickleDict::add(std::string key, PickleValue value) {
  return items.emplace_back(std::move(key), std::move(value)).second;
}

std::string_view PickleValue::kind() const {
  if (const auto* list = std::get_if<PickleList>(this)) return list->is_tuple ? "tuple" : "list";
  constexpr std::string_view kinds[] = {"None", "bool",   "int",  "float",
                                        "str",  "tensor", "list", "dict"};
  return kinds[index()];
}

const std::string& PickleValue::as_string(std::string_view where) const {
  return expect<std::string>(*this, "str", where);
}
const at::Tensor& PickleValue::as_tensor(std::string_view where) const {
  return expect<at::Tensor>(*this, "tensor", where);
}
const PickleDict& PickleValue::as_dict(std::string_view where) const {
  return expect<PickleDict>(*this, "dict", where);
}

}  // namespace tg
