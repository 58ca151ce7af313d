#pragma once
// Values of pickle_reader's stack machine. A pickle shares values through its memo, so nodes form a
// graph (with cycles, in a hostile file); tree_of() converts it to a tree of bounded size and only
// then creates tensors, reading only the storages that they use.
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weights/pickle/pickle.h"

namespace tg::pickle {

// torch.save writes 45 operations and 15 values per tensor: these limits allow about 60,000
// tensors.
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
  opaque,  // an unknown class or function, or an object made with one
};
enum class Global { ordered_dict, rebuild_tensor, rebuild_parameter, storage };

struct Node {
  Kind kind = Kind::none;
  Global global{};          // global
  c10::ScalarType dtype{};  // storage, and global that is a storage class
  int64_t integer = 0;      // boolean, integer; storage: elements
  double real = 0;          // real
  std::string_view text{};  // text; storage: key; opaque: MODULE\nNAME; into the pickle
  // tuple, list; dict: key, value, key, value, …; tensor: the arguments of _rebuild_tensor_v2
  std::vector<const Node*> items{};
};

// A deque: addresses are stable, and nodes in cycles are freed with it.
using Arena = std::deque<Node>;

// The message lacks the file's name, which read_pickle() adds.
struct Malformed : std::runtime_error {
  using runtime_error::runtime_error;
};

const char* kind_name(Kind kind);
// Throws Malformed if depth, count or text exceed their limits, a dict has a key twice or one that
// is not a str, or a value is not plain data.
PickleValue tree_of(const Node& root, const StorageLoader& load);
// Returns the state dict in the file that torch.save wrote of a model, as described in
// state_dict.h. Throws Malformed.
StateDict state_dict_of(const Node& root, const StorageLoader& load);

}  // namespace tg::pickle
