#include "weights/pickle/pickle_nodes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <unordered_set>

#include "base/is_in.h"
#include "weights/tensors/tensor_check.h"

namespace tg::pickle {

const char* kind_name(Kind kind) {
  constexpr const char* names[] = {"None", "bool", "int",    "float",   "str",    "tuple",
                                   "list", "dict", "global", "storage", "tensor", "object"};
  return names[static_cast<int>(kind)];
}

namespace {

// Returns the name of an opaque node's class or function, such as `torch.load`.
std::string class_name(const Node& opaque) {
  std::string name(opaque.text);
  std::ranges::replace(name, '\n', '.');
  return escaped(name);
}

// Throws Malformed, naming the class or function, for an opaque node.
void require_known(const Node& node) {
  if (node.kind != Kind::opaque) return;
  throw Malformed(
      fmt::format("it names {}, which is no part of a plain dict of tensors", class_name(node)));
}

const Node& expect(const Node* node, Kind kind, const char* what) {
  require_known(*node);
  if (node->kind != kind)
    throw Malformed(fmt::format("{} of a tensor: expected {}, found {}", what, kind_name(kind),
                                kind_name(node->kind)));
  return *node;
}

std::vector<int64_t> numbers(const Node* node, const char* what) {
  std::vector<int64_t> values;
  for (const Node* item : expect(node, Kind::tuple, what).items) {
    values.push_back(expect(item, Kind::integer, what).integer);
    if (values.back() < 0) throw Malformed(fmt::format("{} of a tensor is negative", what));
  }
  return values;
}

// Creates a view of a storage from the 6 or 7 arguments of _rebuild_tensor_v2(storage, offset,
// size, stride, requires_grad, hooks[, metadata]).
at::Tensor rebuild_tensor(const std::vector<const Node*>& args, const StorageLoader& load) {
  assert(args.size() == 6 || args.size() == 7);
  const Node& stored = expect(args[0], Kind::storage, "the storage");
  const int64_t offset = expect(args[1], Kind::integer, "the offset").integer;
  const std::vector<int64_t> sizes = numbers(args[2], "the size");
  const std::vector<int64_t> strides = numbers(args[3], "the stride");
  expect(args[4], Kind::boolean, "requires_grad");
  // Hooks are function calls, and metadata is conjugation and the like: a plain state dict has
  // neither.
  for (size_t i = 5; i < args.size(); ++i)
    if (!expect(args[i], Kind::dict, "hooks and metadata").items.empty())
      throw Malformed("a tensor with hooks or metadata");

  const at::Tensor storage = load(stored.text, stored.dtype, stored.integer);
  const auto numel = checked_numel(sizes, storage.element_size());
  if (!numel || sizes.size() != strides.size() || offset < 0)
    throw Malformed(fmt::format("a tensor of size {}, stride {} and offset {}", shape_text(sizes),
                                shape_text(strides), offset));
  if (*numel == 0) return at::empty(sizes, storage.options());
  int64_t last = offset;
  bool overflow = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t step = 0;
    overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
                __builtin_add_overflow(last, step, &last);
  }
  if (overflow || last >= storage.numel() || *numel > storage.numel())
    throw Malformed(fmt::format(
        "a tensor of size {}, stride {} and offset {} does not fit its storage of {} elements",
        shape_text(sizes), shape_text(strides), offset, storage.numel()));
  return storage.as_strided(sizes, strides, offset);
}

// Adds a dict's key to its `keys`. Throws Malformed if it is not a str, or among them already.
void add_key(const Node& key, std::unordered_set<std::string_view>& keys) {
  if (key.kind != Kind::text)
    throw Malformed(
        fmt::format("expected str keys in a dict, found a key of kind {}", kind_name(key.kind)));
  if (!keys.insert(key.text).second)
    throw Malformed(fmt::format("the key '{}' appears twice", escaped(key.text)));
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const StorageLoader& load) : load_(load) {}

  PickleValue build(const Node& node, int depth) {
    if (depth > kMaxDepth) throw Malformed(fmt::format("nested deeper than {}", kMaxDepth));
    count(1, node.text.size());
    switch (node.kind) {
      case Kind::none:
        return {};
      case Kind::boolean:
        return node.integer != 0;
      case Kind::integer:
        return node.integer;
      case Kind::real:
        return node.real;
      case Kind::text:
        return std::string(node.text);
      case Kind::tensor:
        return rebuild_tensor(node.items, load_);
      case Kind::tuple:
      case Kind::list:
        return build_list(node, depth);
      case Kind::dict:
        return build_dict(node, depth);
      case Kind::global:
      case Kind::storage:
      case Kind::opaque:
        break;
    }
    require_known(node);
    throw Malformed(fmt::format("expected plain data, found a {}", kind_name(node.kind)));
  }

 private:
  // Called before allocation: a value shared a million times in the graph is a million values in
  // the tree.
  void count(size_t values, size_t text) {
    values_ += values;
    text_ += text;
    if (values_ > kMaxValues) throw Malformed(fmt::format("more than {} values", kMaxValues));
    if (text_ > kMaxText) throw Malformed(fmt::format("more than {} bytes of text", kMaxText));
  }
  PickleValue build_list(const Node& node, int depth) {
    PickleList list;
    list.is_tuple = node.kind == Kind::tuple;
    for (const Node* item : node.items) list.items.push_back(build(*item, depth + 1));
    return list;
  }
  PickleValue build_dict(const Node& node, int depth) {
    PickleDict dict;
    std::unordered_set<std::string_view> keys;
    for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
      const Node& key = *node.items[i];
      add_key(key, keys);
      count(1, key.text.size());
      dict.add(std::string(key.text), build(*node.items[i + 1], depth + 1));
    }
    return dict;
  }

  const StorageLoader& load_;
  size_t values_ = 0, text_ = 0;
};

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

PickleValue tree_of(const Node& root, const StorageLoader& load) {
  return TreeBuilder(load).build(root, 0);
}

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
    add_key(key, names);
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
