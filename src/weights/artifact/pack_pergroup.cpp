#include <ATen/ATen.h>

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "files/compressed.h"
#include "files/little_endian.h"
#include "files/lrzip.h"
#include "weights/artifact/pergroup.h"
#include "weights/pickle/torch_file.h"

namespace tg {
namespace {

constexpr int kArchiveWindow = 24;  // brotli window bits of the archive; the orders use the default
constexpr int64_t kMaxRows = 1 << 16;

using Order = std::vector<std::uint16_t>;

// Appends the matrix in column-major order, with its rows permuted by `order`; empty: unchanged.
void append_columns(const at::Tensor& q, const Order& order, std::string& to) {
  const auto matrix = q.contiguous();
  const auto* const bytes = static_cast<const char*>(matrix.const_data_ptr());
  const auto rows = static_cast<std::size_t>(q.size(0)), columns = q.numel() / rows;
  to.reserve(to.size() + rows * columns);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < rows; ++r)
      to += bytes[(order.empty() ? r : order[r]) * columns + c];
}

Order order_of(const at::Tensor& q) {
  const auto matrix = q.contiguous();
  return greedy_row_order({static_cast<const std::int8_t*>(matrix.const_data_ptr()),
                           static_cast<std::size_t>(q.numel())},
                          static_cast<std::size_t>(q.size(0)));
}

// Uncompressed streams of the groups, and "s".
struct Groups {
  std::vector<std::string> columns = std::vector<std::string>(kMatrixGroups.size());
  std::string orders;
  PickleDict shapes;

  void add(const MatrixGroup& group, std::size_t index, const at::Tensor& q) {
    Order order;
    if (group.ordered) order = order_of(q);
    for (const auto row : order) append_number(orders, row);
    append_columns(q, order, columns[index]);
    if (shapes.items.empty() || shapes.items.back().first != group.key)
      shapes.add(std::string(group.key), PickleList());
    std::get<PickleList>(shapes.items.back().second)
        .items.push_back(PickleList{{q.size(0), q.size(1)}, /*is_tuple=*/true});
    report_progress(0);
  }
};

// Returns the place of a quantized matrix in its group; nullopt if `name` is no such matrix.
std::optional<GroupPlace> place_of(std::string_view name, const at::Tensor& tensor) {
  constexpr std::string_view suffix = ".q";
  if (!name.ends_with(suffix)) return {};
  const auto place = group_place(name.substr(0, name.size() - suffix.size()));
  const bool fits = place && tensor.dim() == 2 && tensor.numel() > 0 &&
                    (!kMatrixGroups[place->group].ordered || tensor.size(0) <= kMaxRows);
  return fits ? place : std::nullopt;
}

template <class T>
T wait_for(std::future<T>& result) {
  while (result.wait_for(std::chrono::seconds(1)) != std::future_status::ready) report_progress(0);
  return result.get();
}

}  // namespace

PergroupFile pack_pergroup(const PickleDict& value) {
  std::map<GroupPlace, at::Tensor> matrices;
  PickleDict others;
  for (const auto& [name, stored] : value.find("w")->as_dict("w").items) {
    const auto& tensor = stored.as_tensor(name);
    if (const auto place = place_of(name, tensor))
      matrices.emplace(*place, tensor);
    else
      others.add(name, tensor);
  }
  Groups groups;
  for (const auto& [place, q] : matrices) groups.add(kMatrixGroups[place.group], place.group, q);
  PickleDict rest;
  rest.add("r", std::move(others));
  rest.add("m", *value.find("m"));
  rest.add("s", std::move(groups.shapes));
  const std::string archive = torch_value_bytes(rest);

  auto packed_archive =
      std::async(std::launch::async, compress_brotli, std::string_view(archive), kArchiveWindow);
  std::vector<std::string> streams = compress_lrzip(groups.columns);
  streams.push_back(wait_for(packed_archive));
  streams.push_back(groups.orders.empty() ? "" : compress_brotli(groups.orders, kBrotliWindow));
  PergroupFile file{.bytes = "PGRP", .torch_bytes = archive.size()};
  append_number(file.bytes, static_cast<std::uint32_t>(streams.size()));
  for (const auto& stream : streams) {
    REQUIRE(stream.size() <= UINT32_MAX, ExitCode::internal,
            "a stream of {} bytes is too long for an artifact packed per group", stream.size());
    append_number(file.bytes, static_cast<std::uint32_t>(stream.size()));
  }
  for (const auto& stream : streams) file.bytes += stream;
  return file;
}

}  // namespace tg
