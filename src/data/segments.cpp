#include "data/segments.h"

namespace tg {
namespace {

constexpr std::int64_t kBlock = 64;

std::int64_t whole_blocks(std::int64_t segments) {
  return (segments + kBlock - 1) / kBlock * kBlock;
}

template <class Id>
std::vector<std::int32_t> starts_in(std::span<const Id> inputs, std::int64_t seq_len,
                                    const SegmentRule& rule) {
  std::vector<std::int32_t> starts;
  const auto bos = static_cast<TokenId>(rule.bos_id);
  for (std::int64_t row = 0; row < std::ssize(inputs); row += seq_len) {
    const auto end = row + seq_len;
    const auto tokens = inputs.first(static_cast<std::size_t>(end));
    for (auto document = row; document < end;) {
      const auto after = static_cast<std::size_t>(document + 1);
      const auto next =
          document + 1 + static_cast<std::int64_t>(find_token(tokens.subspan(after), bos));
      const auto step = rule.limit > 0 ? rule.limit : seq_len;
      for (auto at = document; at < next; at += step)
        starts.push_back(static_cast<std::int32_t>(at));
      document = next;
    }
  }
  return starts;
}

}  // namespace

std::vector<std::int32_t> segment_starts(const Ids& inputs, std::int64_t seq_len,
                                         const SegmentRule& rule) {
  return std::visit([&](auto ids) { return starts_in(ids, seq_len, rule); }, inputs);
}

std::int64_t usual_segments(std::int64_t inputs, std::int64_t seq_len, const SegmentRule& rule) {
  constexpr std::int64_t short_document = 768;
  const auto per_row = rule.limit > 0 ? (seq_len + rule.limit - 1) / rule.limit : 1;
  return whole_blocks(inputs / short_document + inputs / seq_len * per_row);
}

std::int64_t more_segments(std::int64_t segments) {
  return whole_blocks(segments + segments / 8);
}

}  // namespace tg
