#include "weights/artifact/pergroup.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/escaped.h"
#include "base/strings.h"
#include "files/compressed.h"
#include "files/little_endian.h"
#include "files/lrzip.h"
#include "weights/artifact/artifact_tensors.h"
#include "weights/artifact/gptq_value.h"
#include "weights/pickle/torch_file.h"

namespace tg {
namespace {

constexpr std::size_t kGroups = kMatrixGroups.size(), kStreams = kGroups + 2;
constexpr std::size_t kHead = 4 + (1 + kStreams) * sizeof(std::uint32_t);

std::vector<std::string_view> streams_of(std::string_view bytes, const std::string& path) {
  REQUIRE(bytes.size() >= kHead, ExitCode::bad_data,
          "{}: expected {} bytes of a head, found {}; the file is cut short", path, kHead,
          bytes.size());
  const auto count = number_at<std::uint32_t>(bytes, 4);
  REQUIRE(count == kStreams, ExitCode::bad_data, "{}: expected {} streams, found {}", path,
          kStreams, count);
  std::vector<std::string_view> streams;
  std::uint64_t end = kHead;
  for (std::size_t i = 0; i < kStreams; ++i) {
    const auto size = number_at<std::uint32_t>(bytes, 4 + (1 + i) * sizeof(std::uint32_t));
    if (end <= bytes.size()) streams.push_back(bytes.substr(end, size));
    end += size;
  }
  REQUIRE(end == bytes.size(), ExitCode::bad_data, "{}: expected {} bytes by its head, found {}",
          path, end, bytes.size());
  return streams;
}

struct Matrix {
  std::string name;
  int64_t rows = 0, columns = 0;
};

// Returns the matrices of "m" that are not among the other tensors, by group and in the order of
// their layers.
std::array<std::vector<Matrix>, kGroups> matrices_of(const PickleDict& kinds,
                                                     const PickleDict& others) {
  std::unordered_set<std::string_view> elsewhere;
  for (const auto& [name, tensor] : others.items) elsewhere.insert(name);
  std::map<GroupPlace, std::string> names;
  for (const auto& [name, kind] : kinds.items) {
    const auto* text = std::get_if<std::string>(&kind);
    const auto place = group_place(name);
    if (place && text && is_gptq_kind(*text) && !elsewhere.contains(name + ".q"))
      names.emplace(*place, name);
  }
  std::array<std::vector<Matrix>, kGroups> groups;
  for (const auto& [place, name] : names) groups[place.group].push_back({.name = name});
  return groups;
}

int64_t size_in(const PickleValue& value, const std::string& where) {
  const auto* size = std::get_if<int64_t>(&value);
  REQUIRE(size && *size > 0, ExitCode::bad_data, "{}: expected a size from 1 on, found {}", where,
          size ? fmt::format("{}", *size) : value.kind());
  return *size;
}

void set_shapes(const PickleValue* shapes, std::vector<Matrix>& matrices,
                const std::string& where) {
  const auto* list = shapes ? std::get_if<PickleList>(shapes) : nullptr;
  REQUIRE(list || !shapes, ExitCode::bad_data, "{}: expected a list, found a {}", where,
          shapes->kind());
  const std::size_t count = list ? list->items.size() : 0;
  REQUIRE(count == matrices.size(), ExitCode::bad_data,
          "{}: expected the shapes of the {} matrices in 'm', found {}", where, matrices.size(),
          count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* shape = std::get_if<PickleList>(&list->items[i]);
    REQUIRE(shape && shape->items.size() == 2, ExitCode::bad_data,
            "{}: expected a shape of two sizes, found otherwise", where);
    matrices[i].rows = size_in(shape->items[0], where);
    matrices[i].columns = size_in(shape->items[1], where);
  }
}

// Takes the row permutation of an ordered matrix off `orders`: order[i] is the row at position i in
// the stream.
std::vector<std::uint16_t> take_order(std::string_view& orders, const Matrix& matrix,
                                      const std::string& path) {
  std::vector<std::uint16_t> order;
  std::vector<bool> seen(static_cast<std::size_t>(matrix.rows));
  for (int64_t i = 0; i < matrix.rows; ++i) {
    const auto row = number_at<std::uint16_t>(orders);
    REQUIRE(row < matrix.rows && !seen[row], ExitCode::bad_data,
            "{}: the order of the rows of '{}': expected each of {} once, found row {}{}", path,
            escaped(matrix.name), matrix.rows, row, row < matrix.rows ? " twice" : "");
    seen[row] = true;
    order.push_back(row);
    orders.remove_prefix(sizeof row);
  }
  return order;
}

at::Tensor matrix_of(std::string_view columns, const Matrix& matrix,
                     const std::vector<std::uint16_t>& order) {
  const auto q = at::empty({matrix.rows, matrix.columns}, at::kChar);
  auto* const bytes = static_cast<char*>(q.mutable_data_ptr());
  const auto rows = static_cast<std::size_t>(matrix.rows);
  const auto width = static_cast<std::size_t>(matrix.columns);
  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t r = 0; r < rows; ++r)
      bytes[(order.empty() ? r : order[r]) * width + c] = columns[c * rows + r];
  return q;
}

}  // namespace

std::optional<GroupPlace> group_place(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  GroupPlace place;
  const bool in_block = name.starts_with(kBlocks);
  if (in_block) {
    name.remove_prefix(kBlocks.size());
    const auto digits = name.substr(0, name.find('.'));
    const auto layer = parse_number<int64_t>(digits);
    // Each layer has one spelling: no sign, no leading zeros.
    if (!layer || *layer < 0 || digits != std::to_string(*layer) || digits == name) return {};
    place.layer = *layer;
    name.remove_prefix(digits.size() + 1);
  }
  for (; place.group < kGroups; ++place.group)
    if (kMatrixGroups[place.group].name == name && in_block == (place.group > 0)) return place;
  return {};
}

bool is_pergroup(std::string_view bytes) {
  return bytes.starts_with("PGRP");
}

PickleDict unpack_pergroup(std::string_view bytes, const PergroupLimits& limits,
                           const std::string& path) {
  const auto streams = streams_of(bytes, path);
  const PickleValue rest = parse_torch_value(
      decompress_brotli(streams[kGroups], limits.bytes, path + ": other tensors"), path);
  const PickleDict& all = rest.as_dict(path);
  const PickleDict& kinds = dict_in(all, "m", path);
  PickleDict tensors = dict_in(all, "r", path);
  const PickleDict& shapes = dict_in(all, "s", path);

  auto groups = matrices_of(kinds, tensors);
  std::vector<LrzipStream> packed;
  int64_t elements = 0, ordered_rows = 0;
  for (std::size_t g = 0; g < kGroups; ++g) {
    const auto& [name, ordered, key] = kMatrixGroups[g];
    const std::string where = fmt::format("{}: 's' '{}'", path, key);
    set_shapes(shapes.find(key), groups[g], where);
    std::uint64_t size = 0;
    for (const auto& matrix : groups[g]) {
      REQUIRE(matrix.columns <= (limits.max_elements - elements) / matrix.rows, ExitCode::bad_data,
              "{}: expected at most {} elements in all groups, found more; check the model's "
              "settings",
              where, limits.max_elements);
      elements += matrix.rows * matrix.columns;
      size += static_cast<std::uint64_t>(matrix.rows * matrix.columns);
      if (ordered) ordered_rows += matrix.rows;
    }
    packed.push_back({streams[g], size, fmt::format("{}: {}", path, name)});
  }
  for (const auto& [key, unused] : shapes.items)
    REQUIRE(std::ranges::find(kMatrixGroups, key, &MatrixGroup::key) != kMatrixGroups.end(),
            ExitCode::bad_data, "{}: 's' '{}': no group of an artifact", path, escaped(key));

  const auto order_bytes = static_cast<std::size_t>(ordered_rows) * sizeof(std::uint16_t);
  const std::string orders_name = path + ": orders of rows";
  const std::string orders = order_bytes == 0 && streams.back().empty()
                                 ? ""
                                 : decompress_brotli(streams.back(), order_bytes, orders_name);
  REQUIRE(orders.size() == order_bytes, ExitCode::bad_data, "{}: expected {} bytes, found {}",
          orders_name, order_bytes, orders.size());

  const auto columns = decompress_lrzip(packed);
  std::string_view orders_left = orders;
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::string_view left = columns[g];
    for (const auto& matrix : groups[g]) {
      std::vector<std::uint16_t> order;
      if (kMatrixGroups[g].ordered) order = take_order(orders_left, matrix, path);
      tensors.add(matrix.name + ".q", matrix_of(left, matrix, order));
      left.remove_prefix(static_cast<std::size_t>(matrix.rows * matrix.columns));
    }
  }
  PickleDict value;
  value.add("w", std::move(tensors));
  value.add("m", kinds);
  return value;
}

}  // namespace tg
