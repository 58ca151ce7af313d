#include <ATen/ATen.h>
#include <fmt/format.h>

#include <unordered_set>

#include "base/is_in.h"
#include "weights/pickle/pickle_nodes.h"
#include "weights/tensors/tensor_check.h"

namespace tg::pickle {
namespace {

// Keys under which trainers save a state dict, next to optimizer state, step and settings.
constexpr std::string_view kWrappers[] = {"model", "state_dict", "model_state_dict"};
constexpr int kMaxWrappers = 4;  // levels of nesting; bounds the search in a hostile graph

bool is_wrapper(const Node& key) {
  return key.kind == Kind::text && is_in(kWrappers, key.text);
}

// Calls visit(key, value) for each item until a call returns true; returns whether one did.
bool any_item(const Node& dict, auto visit) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (visit(*dict.items[i], *dict.items[i + 1])) return true;
  return false;
}

bool holds_tensors(const Node& node, int depth) {
  if (node.kind != Kind::dict || depth > kMaxWrappers) return false;
  return any_item(node, [&](const Node& key, const Node& value) {
    return value.kind == Kind::tensor || (is_wrapper(key) && holds_tensors(value, depth + 1));
  });
}

// Returns the dict of tensors nested in `dict`; null if `dict` itself is the dict of tensors.
const Node* unwrap(const Node& dict, int depth, StateDict& found) {
  const Node *inner = nullptr, *name = nullptr;
  any_item(dict, [&](const Node& key, const Node& value) {
    if (!is_wrapper(key) || !holds_tensors(value, depth)) return false;
    if (inner != nullptr)
      throw Malformed(fmt::format("it has tensors under both '{}' and '{}'; save one of them",
                                  name->text, key.text));
    inner = &value;
    name = &key;
    return false;
  });
  if (inner == nullptr) return nullptr;
  any_item(dict, [&](const Node& key, const Node& value) {
    if (&value != inner && key.kind == Kind::text) found.left_out.push_back(escaped(key.text));
    return false;
  });
  found.under.emplace_back(name->text);
  return inner;
}

}  // namespace

StateDict state_dict_of(const Node& root, const StorageLoader& load) {
  if (root.kind == Kind::opaque)
    throw Malformed(fmt::format("it is an object of {}; save its state_dict()", class_name(root)));
  if (root.kind != Kind::dict)
    throw Malformed(fmt::format("expected a dict, found {}", kind_name(root.kind)));
  StateDict found;
  const Node* dict = &root;
  for (int depth = 0; const Node* inner = unwrap(*dict, depth, found); ++depth) dict = inner;
  std::unordered_set<std::string_view> names;
  any_item(*dict, [&](const Node& key, const Node& value) {
    if (key.kind != Kind::text)
      throw Malformed(
          fmt::format("expected str keys in a dict, found a key of kind {}", kind_name(key.kind)));
    if (!names.insert(key.text).second)
      throw Malformed(fmt::format("the key '{}' appears twice", escaped(key.text)));
    if (value.kind == Kind::tensor)
      found.tensors.emplace_back(key.text, rebuild_tensor(value.items, load));
    else
      found.left_out.push_back(escaped(key.text));
    return false;
  });
  if (found.tensors.empty()) throw Malformed("expected a dict of tensors, found none in it");
  return found;
}

}  // namespace tg::pickle
