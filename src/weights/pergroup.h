#pragma once
// The last record's file: the int8 of seven groups of matrices column after column, each packed by
// lrzip, and all else by brotli. Layout, numbers in 32 bits: "PGRP", 9, the bytes of nine streams,
// the streams: the groups below; the archive of {"r": other tensors, "m": kinds, "s": shapes by
// group}; the orders of the rows of the ordered groups in 16 bits. A group without matrices has no
// bytes, and no entry in "s".
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weights/pickle_value.h"

namespace tg {

struct MatrixGroup {
  std::string_view name;  // blocks.LAYER.NAME, or the name without a layer
  bool ordered;           // rows in greedy_row_order()
  std::string_view key;   // in "s"
};

inline constexpr std::array<MatrixGroup, 7> kMatrixGroups = {{
    {"tok_emb.weight", true, "_tok_emb.weight.q"},
    {"attn.c_k.weight", false, "attn.c_k.weight.q"},
    {"attn.c_q.weight", true, "attn.c_q.weight.q"},
    {"attn.c_v.weight", false, "attn.c_v.weight.q"},
    {"attn.proj.weight", false, "attn.proj.weight.q"},
    {"mlp.fc.weight", true, "mlp.fc.weight.q"},
    {"mlp.proj.weight", false, "mlp.proj.weight.q"},
}};

// Where a matrix is in the file; the layers of a group are in order.
struct GroupPlace {
  std::size_t group = 0;
  int64_t layer = 0;
  auto operator<=>(const GroupPlace&) const = default;
};
std::optional<GroupPlace> group_place(std::string_view name);

bool is_pergroup(std::string_view bytes);  // by its first four

struct PergroupFile {
  std::string bytes;
  std::size_t torch_bytes;  // of the archive in it
};
// {"w": tensors, "m": kinds} of CPU tensors, as gptq_value() makes it. Matrices of groups whose
// rows 16 bits cannot count are among the others. Errors: those of compress_lrzip().
PergroupFile pack_pergroup(const PickleDict& value);

struct PergroupLimits {
  std::size_t bytes;     // that a stream may unpack to
  int64_t max_elements;  // of all groups
};
// The same value of such a file. Errors: bad_data, those of decompress_lrzip().
PickleDict unpack_pergroup(std::string_view bytes, const PergroupLimits& limits,
                           const std::string& path);

}  // namespace tg
