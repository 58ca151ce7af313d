#pragma once
// File format of the last record: the int8 elements of seven groups of matrices, column-major, each
// group compressed by lrzip, and the rest by brotli. Layout, with 32-bit numbers: "PGRP"; 9; the
// sizes of nine streams; the streams: the groups below, the archive of {"r": other tensors, "m":
// kinds, "s": shapes by group}, and the 16-bit row orders of the ordered groups. A group without
// matrices has an empty stream and no entry in "s".
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/pickle/pickle_value.h"

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

// Position of a matrix in the file; the layers of a group are in order.
struct GroupPlace {
  std::size_t group = 0;
  int64_t layer = 0;
  auto operator<=>(const GroupPlace&) const = default;
};
std::optional<GroupPlace> group_place(std::string_view name);

bool is_pergroup(std::string_view bytes);  // by its first four bytes

// Returns a permutation of the rows of an int8 matrix (up to 65,536) in which similar rows are
// adjacent: greedy nearest-neighbor ordering by L1 distance from row 0; ties go to the lowest
// index. O(rows²·columns): 8,192 rows of 512 columns take about 0.8 s; uses several threads from 16
// million elements on.
std::vector<std::uint16_t> greedy_row_order(std::span<const std::int8_t> matrix, std::size_t rows);

struct PergroupFile {
  std::string bytes;
  std::size_t torch_bytes;  // size of the uncompressed archive in it
};
// Packs {"w": tensors, "m": kinds} of CPU tensors, as returned by gptq_value(). A matrix with too
// many rows for 16-bit indices is stored with the other tensors. Throws what compress_lrzip()
// throws.
PergroupFile pack_pergroup(const PickleDict& value);

struct PergroupLimits {
  std::size_t bytes;     // limit for an uncompressed stream
  int64_t max_elements;  // limit for all groups together
};
// Returns the value that pack_pergroup() packed. Throws Error(bad_data) and what decompress_lrzip()
// throws.
PickleDict unpack_pergroup(std::string_view bytes, const PergroupLimits& limits,
                           const std::string& path);

}  // namespace tg
