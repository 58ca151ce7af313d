#include "weights/safetensors/safetensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "files/little_endian.h"
#include "weights/tensors/dtype_names.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // limit of the safetensors library

// Returns the indices of the items, stably sorted by their keys.
std::vector<size_t> sorted_indices(const auto& items, auto compare, auto key) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, compare, [&](size_t i) { return key(items[i]); });
  return order;
}

// Orders tensors by decreasing element size: each is then aligned to its element size, and Python's
// loader need not copy it.
std::vector<size_t> layout_order(const NamedTensors& tensors) {
  return sorted_indices(tensors, std::greater(),
                        [](const auto& named) { return named.second.element_size(); });
}

std::string header_text(const NamedTensors& tensors, const std::vector<size_t>& order,
                        const Metadata& metadata) {
  std::vector<uint64_t> begins(tensors.size());
  uint64_t at = 0;
  for (size_t i : order) {
    begins[i] = at;
    at += tensors[i].second.nbytes();
  }
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  if (!metadata.empty()) entries["__metadata__"] = metadata;
  std::set<std::string> names{"__metadata__"};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const auto* const dtype = find_dtype(&DtypeNames::dtype, tensor.scalar_type());
    REQUIRE(dtype, ExitCode::internal, "safetensors has no dtype for '{}'", name);
    REQUIRE(names.insert(name).second, ExitCode::internal, "safetensors: '{}' twice", name);
    entries.push_back({name,
                       {{"dtype", dtype->safetensors},
                        {"shape", tensor.sizes().vec()},
                        {"data_offsets", {begins[i], begins[i] + tensor.nbytes()}}}});
  }
  std::string text = entries.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Orders entries as their data are in the file.
std::vector<size_t> file_order(const std::vector<SafetensorsEntry>& entries) {
  return sorted_indices(entries, std::less(), [](const SafetensorsEntry& entry) {
    return std::pair(entry.begin, entry.end);
  });
}

// Each tensor must begin where the previous one ends, and the last one must end at the end of the
// file.
void check_offsets(const std::vector<SafetensorsEntry>& entries, uint64_t data_size,
                   const std::string& file) {
  uint64_t at = 0;
  for (const size_t i : file_order(entries)) {
    const auto& entry = entries[i];
    const std::string name = escaped(entry.name);
    REQUIRE(entry.begin <= entry.end && entry.end <= data_size, ExitCode::bad_data,
            "{}: tensor '{}' is at bytes {} to {}, expected within 0 to {}", file, name,
            entry.begin, entry.end, data_size);
    const size_t item = c10::elementSize(entry.dtype);
    const auto numel = checked_numel(entry.shape, item);
    REQUIRE(numel, ExitCode::bad_data, "{}: tensor '{}' has the impossible shape {}", file, name,
            shape_text(entry.shape));
    const uint64_t expected = static_cast<uint64_t>(*numel) * item;
    REQUIRE(entry.end - entry.begin == expected, ExitCode::bad_data,
            "{}: tensor '{}' of shape {} and dtype {}: expected {} bytes, found {}", file, name,
            shape_text(entry.shape), find_dtype(&DtypeNames::dtype, entry.dtype)->safetensors,
            expected, entry.end - entry.begin);
    REQUIRE(entry.begin == at, ExitCode::bad_data,
            "{}: tensor '{}' begins at byte {}, expected {} (tensors may neither overlap nor leave "
            "holes)",
            file, name, entry.begin, at);
    at = entry.end;
  }
  REQUIRE(at == data_size, ExitCode::bad_data,
          "{}: the tensors end at byte {} of the data, expected {} (trailing bytes)", file, at,
          data_size);
}

// Returns the header and the offset of the tensors' data.
std::pair<SafetensorsHeader, uint64_t> read_header(const ByteSource& source) {
  const std::string& path = source.name();
  constexpr size_t kLength = sizeof(uint64_t);
  REQUIRE(source.holds(0, kLength), ExitCode::bad_data,
          "{}: expected a safetensors file, found {} bytes", path, source.size());
  const auto length = number_at<uint64_t>(source.read(0, kLength));
  REQUIRE(length <= kMaxHeader && source.holds(kLength, length), ExitCode::bad_data,
          "{}: expected a safetensors header of at most {} bytes, found a length of {}", path,
          std::min(kMaxHeader, source.size() - kLength), length);
  const std::string text = source.read(kLength, length);
  REQUIRE(text.starts_with('{'), ExitCode::bad_data,
          "{}: expected a safetensors header that begins with '{{'", path);
  SafetensorsHeader header = parse_safetensors_header(text, path);
  const uint64_t data = kLength + length;
  check_offsets(header.entries, source.size() - data, path);
  return {std::move(header), data};
}

}  // namespace

NamedTensors read_safetensors(const ByteSource& source, Metadata* metadata,
                              const NameFilter& wanted) {
  auto [header, data] = read_header(source);
  NamedTensors tensors(header.entries.size());
  for (const size_t i : file_order(header.entries)) {
    auto& entry = header.entries[i];
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
    source.read(data + entry.begin, tensor.mutable_data_ptr(), tensor.nbytes());
    REQUIRE(entry.dtype != c10::ScalarType::Bool || all_zero_or_one(tensor), ExitCode::bad_data,
            "{}: tensor '{}' is BOOL, expected bytes 0 and 1, found others", source.name(),
            escaped(entry.name));
    if (!wanted || wanted(entry.name)) tensors[i] = {std::move(entry.name), std::move(tensor)};
  }
  std::erase_if(tensors, [](const auto& named) { return !named.second.defined(); });
  if (metadata) *metadata = std::move(header.metadata);
  return tensors;
}

FileDigest save_safetensors(const std::string& path, const NamedTensors& tensors,
                            const Metadata& metadata) {
  const at::NoGradGuard no_grad;
  const std::vector<size_t> order = layout_order(tensors);
  const std::string header = header_text(tensors, order, metadata);
  AtomicFile file(path);
  const uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (size_t i : order) {
    const at::Tensor tensor = tensors[i].second.to(at::kCPU).contiguous();
    file.write(tensor.const_data_ptr(), tensor.nbytes());
  }
  return file.commit();
}

SafetensorsHeader load_safetensors_header(const std::string& path) {
  return read_header(FileSource(path)).first;
}

NamedTensors load_safetensors(const std::string& path, Metadata* metadata) {
  return read_safetensors(FileSource(path), metadata);
}

}  // namespace tg
