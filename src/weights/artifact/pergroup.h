#pragma once
// File format of the last record: the int8 elements of seven groups of matrices, column-major, each
// group compressed by lrzip, and the rest by brotli. Layout, with 32-bit numbers: "PGRP"; 9; the
// sizes of nine streams; the streams: the groups below, the archive of {"r": other tensors, "m":
// kinds, "s": shapes by group}, and the 16-bit row orders of the ordered groups. A group without
// matrices has an empty stream and no entry in "s".
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
