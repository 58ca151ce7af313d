#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/escaped.h"
#include "files/compressed.h"
#include "files/little_endian.h"
#include "files/lrzip.h"
#include "weights/artifact/artifact_tensors.h"
#include "weights/artifact/gptq_value.h"
#include "weights/artifact/pergroup.h"
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

// Reads the row permutations of the ordered matrices: order[i] is the row at position i in the
// stream.
class Orders {
 public:
  Orders(std::string bytes, const std::string& path) : bytes_(std::move(bytes)), path_(path) {}

  std::vector<std::uint16_t> next(const Matrix& matrix) {
    std::vector<std::uint16_t> order;
    std::vector<bool> seen(static_cast<std::size_t>(matrix.rows));
    for (int64_t i = 0; i < matrix.rows; ++i, at_ += sizeof(std::uint16_t)) {
      const auto row = number_at<std::uint16_t>(bytes_, at_);
      REQUIRE(row < matrix.rows && !seen[row], ExitCode::bad_data,
              "{}: the order of the rows of '{}': expected each of {} once, found row {}{}", path_,
              escaped(matrix.name), matrix.rows, row, row < matrix.rows ? " twice" : "");
      seen[row] = true;
      order.push_back(row);
    }
    return order;
  }

 private:
  std::string bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

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
  std::string unpacked_orders = order_bytes == 0 && streams.back().empty()
                                    ? ""
                                    : decompress_brotli(streams.back(), order_bytes, orders_name);
  REQUIRE(unpacked_orders.size() == order_bytes, ExitCode::bad_data,
          "{}: expected {} bytes, found {}", orders_name, order_bytes, unpacked_orders.size());
  Orders orders(std::move(unpacked_orders), path);

  const auto columns = decompress_lrzip(packed);
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::string_view left = columns[g];
    for (const auto& matrix : groups[g]) {
      std::vector<std::uint16_t> order;
      if (kMatrixGroups[g].ordered) order = orders.next(matrix);
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
