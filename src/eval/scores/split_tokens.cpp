#include "eval/scores/split_tokens.h"

#include <algorithm>
#include <cassert>

#include "data/segments.h"

namespace tg {

Ids ids_of(const at::Tensor& tokens) {
  return ids_at(static_cast<const std::byte*>(tokens.const_data_ptr()), tokens.numel(),
                static_cast<int>(tokens.element_size()));
}

at::ScalarType id_dtype(int id_bytes) {
  return id_bytes == sizeof(NarrowId) ? at::kUInt16 : at::kUInt32;
}

SplitTokens::SplitTokens(const TokenSource& source, std::int64_t predictions, std::int64_t length,
                         const TextBytes* bytes, std::optional<std::int64_t> bos_id,
                         at::Device device)
    : predictions_(predictions) {
  const int id_bytes = source.id_bytes();
  const auto host = at::zeros({predictions + 1 + length}, id_dtype(id_bytes));
  auto* const memory = static_cast<std::byte*>(host.mutable_data_ptr());
  source.read_at(0, ids_at(memory, predictions + 1, id_bytes));
  tokens_ = host.to(device);
  if (bos_id) {
    documents_ =
        segment_starts(ids_of(host.narrow(0, 0, predictions)), predictions, {.bos_id = *bos_id});
  }
  if (bytes == nullptr) return;
  if (bytes->sidecar) {
    const auto entries = at::empty({predictions}, at::kUInt16);
    bytes->sidecar->read_at(
        1, std::span(entries.mutable_data_ptr<NarrowId>(), static_cast<std::size_t>(predictions)));
    bytes_ = entries.to(at::kInt).to(device);
    return;
  }
  const auto counts = at::empty({predictions}, at::kShort);
  auto* const count = counts.mutable_data_ptr<std::int16_t>();
  ByteCounter counter(*bytes->table);
  const auto count_all = [&](auto tokens) {
    counter.next(tokens[0]);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      count[i] = static_cast<std::int16_t>(counter.next(tokens[i + 1]));
  };
  std::visit(count_all, ids_of(host.narrow(0, 0, predictions + 1)));
  bytes_ = counts.to(device);
}

at::Tensor SplitTokens::gather(const at::Tensor& places) const {
  // at::index has no kernel for unsigned integers.
  if (tokens_.scalar_type() == at::kUInt32)
    return tokens_.view(at::kInt).index({places}).to(at::kLong);
  return tokens_.view(at::kShort).index({places}).to(at::kLong).bitwise_and_(0xFFFF);
}

PaddedRows SplitTokens::padded(std::span<const ChunkWindow> rows, std::int64_t length,
                               std::int64_t predicted) const {
  const auto host = at::empty({4, std::ssize(rows), 1},
                              at::TensorOptions(at::kLong).pinned_memory(tokens_.is_cuda()));
  auto numbers = host.accessor<std::int64_t, 3>();
  for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
    const auto& window = rows[static_cast<std::size_t>(row)];
    numbers[0][row][0] = window.start;
    numbers[1][row][0] = window.length;
    numbers[2][row][0] = window.offset;
    numbers[3][row][0] = window.offset + window.scored;
  }
  const auto of_row = host.to(tokens_.device(), /*non_blocking=*/true).unbind();
  const auto positions = at::arange(length, tokens_.options().dtype(at::kLong));
  const auto last = [&](const at::Tensor& x) { return x.slice(-1, length - predicted); };
  const auto padding = positions >= of_row[1];
  const auto all_places = (of_row[0] + positions).masked_fill_(padding, 0);
  const auto places = last(all_places);
  return {.inputs = gather(all_places).masked_fill_(padding, 0),
          .targets = gather(places + 1).masked_fill_(last(padding), 0),
          .places = places,
          .scored = (last(positions) >= of_row[2]).logical_and_(last(positions) < of_row[3])};
}

at::Tensor SplitTokens::inputs(std::int64_t begin, std::int64_t rows, std::int64_t length,
                               std::int64_t stride) const {
  assert(begin >= 0 && begin + (rows - 1) * stride + length <= tokens_.numel());
  return tokens_.as_strided({rows, length}, {stride, 1}, begin);
}

at::Tensor SplitTokens::segments(std::int64_t begin, std::int64_t rows, std::int64_t length,
                                 std::int64_t stride) const {
  if (!documents_) return {};
  std::vector<std::int32_t> boundaries;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from = begin + row * stride;
    const auto to_batch = row * length - from;
    boundaries.push_back(static_cast<std::int32_t>(row * length));
    for (auto at = std::ranges::upper_bound(*documents_, from);
         at != documents_->end() && *at < from + length; ++at)
      boundaries.push_back(static_cast<std::int32_t>(*at + to_batch));
  }
  boundaries.push_back(static_cast<std::int32_t>(rows * length));
  const auto host = at::empty({std::ssize(boundaries)},
                              at::TensorOptions(at::kInt).pinned_memory(tokens_.is_cuda()));
  std::ranges::copy(boundaries, host.mutable_data_ptr<std::int32_t>());
  return host.to(tokens_.device(), /*non_blocking=*/true);
}

at::Tensor SplitTokens::target_bytes(std::int64_t begin, std::int64_t rows, std::int64_t length,
                                     std::int64_t stride) const {
  assert(begin >= 0 && begin + (rows - 1) * stride + length <= bytes_.numel());
  return bytes_.as_strided({rows, length}, {stride, 1}, begin);
}

}  // namespace tg
