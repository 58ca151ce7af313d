#pragma once
// The values of pickle_reader's stack machine. A pickle shares values through its memo, so nodes
// form a graph (with cycles, in a hostile file); tree_of converts it to a tree of bounded size.
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "store/pickle_value.h"

namespace tg::pickle {

// torch.save writes 45 operations and 15 values for a tensor: this allows some 60,000 tensors.
inline constexpr size_t kMaxOperations = 4'000'000;
inline constexpr size_t kMaxValues = 1'000'000;
inline constexpr size_t kMaxText = 64 << 20;  // bytes of strings in the tree
inline constexpr int kMaxDepth = 32;

enum class Kind { none, boolean, integer, real, text, tuple, list, dict, global, storage, tensor };
enum class Global { ordered_dict, rebuild_tensor, rebuild_parameter, storage };

struct Node {
  Kind kind = Kind::none;
  Global global{};                   // global
  c10::ScalarType dtype{};           // global that is a storage class
  int64_t integer = 0;               // boolean, integer
  double real = 0;                   // real
  std::string_view text{};           // text: into the pickle
  std::vector<const Node*> items{};  // tuple, list; dict: key, value, key, value, …
  at::Tensor tensor{};               // storage (1-D), tensor
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
PickleValue tree_of(const Node& root);
// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata]): a view.
at::Tensor rebuild_tensor(const std::vector<const Node*>& args);

}  // namespace tg::pickle
