#pragma once
// The values of pickle_reader's stack machine. A pickle shares values through its memo, so nodes
// form a graph (with cycles, in a hostile file); tree_of converts it to a tree of bounded size.
// Tensors are made then, of the storages that they need: what nobody asks for is never read.
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weights/pickle_reader.h"

namespace tg::pickle {

// torch.save writes 45 operations and 15 values for a tensor: this allows some 60,000 tensors.
inline constexpr size_t kMaxOperations = 4'000'000;
inline constexpr size_t kMaxValues = 1'000'000;
inline constexpr size_t kMaxText = 64 << 20;  // bytes of strings in the tree
inline constexpr int kMaxDepth = 32;

enum class Kind {
  none,
  boolean,
  integer,
  real,
  text,
  tuple,
  list,
  dict,
  global,
  storage,
  tensor,
  opaque,  // a class or function that this reader does not know, or what the pickle makes of one
};
enum class Global { ordered_dict, rebuild_tensor, rebuild_parameter, storage };

struct Node {
  Kind kind = Kind::none;
  Global global{};          // global
  c10::ScalarType dtype{};  // storage, and global that is a storage's class
  int64_t integer = 0;      // boolean, integer; storage: elements
  double real = 0;          // real
  std::string_view text{};  // text; storage: key; opaque: MODULE\nNAME; into the pickle
  // tuple, list; dict: key, value, key, value, …; tensor: the arguments of _rebuild_tensor_v2
  std::vector<const Node*> items{};
};

// A deque: addresses are stable, and nodes in cycles are freed.
using Arena = std::deque<Node>;

// The message without the file's name, which read_pickle adds.
struct Malformed : std::runtime_error {
  using runtime_error::runtime_error;
};

const char* kind_name(Kind kind);
// Throws Malformed if depth, count or text exceed their limits, a dict has a key twice or one that
// is not a str, or a value is not plain data.
PickleValue tree_of(const Node& root, const StorageLoader& load);
// The state dict in what torch.save wrote of a model, as state_dict.h says. Throws Malformed.
StateDict state_dict_of(const Node& root, const StorageLoader& load);

// The 6 or 7 arguments of _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[,
// metadata]): a view.
at::Tensor rebuild_tensor(const std::vector<const Node*>& args, const StorageLoader& load);
// Of the class or function behind an opaque node, as `torch.load`.
std::string class_name(const Node& opaque);
// Throws Malformed, naming the class or function, for an opaque node.
void require_known(const Node& node);

}  // namespace tg::pickle
