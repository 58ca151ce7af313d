#include "data/document_beginnings.h"

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "config/mode.h"

namespace tg {
namespace {

constexpr std::int64_t kLooked = 1 << 20;  // of documents of FineWeb a thousand

// → the tokens before the first one; nothing: it is there.
std::optional<std::int64_t> tokens_without(const TokenSource& source, std::int64_t bos_id) {
  std::vector<std::uint16_t> tokens;
  std::int64_t begin = 0;
  for (std::int64_t wanted = 1 << 12; begin < kLooked; wanted = kLooked) {
    const auto end = source.tokens_up_to(std::min(begin + wanted, kLooked));
    if (end == begin) break;
    tokens.resize(static_cast<std::size_t>(end - begin));
    source.read_at(begin, tokens);
    if (std::ranges::find(tokens, bos_id) != tokens.end()) return {};
    begin = end;
  }
  return begin;
}

}  // namespace

void warn_without_documents(const Settings& settings, const TokenSource& source,
                            std::int64_t bos_id) {
  const bool attention = mode::segments_attention(settings);
  if (!attention && !mode::has_smear_gate(settings)) return;
  if (const auto tokens = tokens_without(source, bos_id)) {
    log_warn_once(
        "{}: no document begins in the first {} tokens (expected the token BOS_ID={} at each one's "
        "beginning), so that {} all of them as one; set BOS_ID to the token that begins them, or "
        "{}",
        source.pattern(), *tokens, bos_id,
        attention ? "DOCUMENT_ATTENTION=1 takes" : "the smear gate takes",
        attention ? "DOCUMENT_ATTENTION=0" : "make shards with one");
  }
}

}  // namespace tg
