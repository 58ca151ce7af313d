#include "data/training_order.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/log.h"
#include "config/derived.h"
#include "config/mode.h"
#include "data/aligned_order.h"
#include "data/documents_order.h"

namespace tg {
namespace {

// 0, no limit, is the longest.
std::int64_t shortest_limit(const CountSchedule& limits) {
  std::int64_t shortest = 0;
  for (const auto& stage : limits.stages()) {
    if (stage.value > 0 && (shortest == 0 || stage.value < shortest)) shortest = stage.value;
  }
  return shortest;
}

AlignedOrder::MostPieces most_pieces(const Settings& settings) {
  if (!settings.runtime.record_quirks) return {};
  return [recipe = settings.model.recipe](std::int64_t row_tokens) {
    return most_script_pieces(recipe, row_tokens);
  };
}

// The order has micro-batches of the largest shape.
std::unique_ptr<TokenOrder> make_order(const Settings& settings, const TokenSource& tokens,
                                       int rank, int world_size) {
  const auto longest = micro_batch_tokens(settings, world_size);
  const auto of_step = micro_batches(settings, world_size);
  const bool quirks = settings.runtime.record_quirks;
  const DocumentRows rows{
      .tokens = longest, .of_step = of_step, .of_round = quirks ? world_size : of_step};
  const auto& bos_id = settings.data.bos_id;
  assert(!mode::batches_are_rows(settings) || !bos_id.automatic);
  switch (settings.data.loader_order) {
    case LoaderOrder::documents:
      return std::make_unique<DocumentsOrder>(tokens, rows, bos_id.value, rank, world_size);
    case LoaderOrder::aligned:
      return std::make_unique<AlignedOrder>(
          tokens, rows,
          AlignedOrder::Pieces{.bos_id = bos_id.value,
                               .limit = shortest_limit(segment_limits(settings)),
                               .most = most_pieces(settings)},
          rank, world_size);
    case LoaderOrder::strided:
      // The speedrun's reference implementation trains on its first micro-batch twice.
      return std::make_unique<StridedOrder>(tokens, longest, rank, world_size, quirks);
    case LoaderOrder::stream:
      break;
  }
  return std::make_unique<StreamOrder>(tokens, longest, of_step, rank, world_size);
}

constexpr std::int64_t kSearchedTokens = 1 << 20;  // tokens; about a thousand FineWeb documents

// Returns the number of tokens searched without finding `bos_id`; nullopt if it was found.
std::optional<std::int64_t> tokens_without(const TokenSource& source, std::int64_t bos_id) {
  std::vector<TokenId> tokens;
  std::int64_t begin = 0;
  for (std::int64_t wanted = 1 << 12; begin < kSearchedTokens; wanted = kSearchedTokens) {
    const auto end = source.tokens_up_to(std::min(begin + wanted, kSearchedTokens));
    if (end == begin) break;
    tokens.resize(static_cast<std::size_t>(end - begin));
    source.read_at(begin, tokens);
    if (std::ranges::find(tokens, static_cast<TokenId>(bos_id)) != tokens.end()) return {};
    begin = end;
  }
  return begin;
}

}  // namespace

std::int64_t most_script_pieces(RecipeChoice recipe, std::int64_t row_tokens) {
  if (recipe != RecipeChoice::speedrun_89 && recipe != RecipeChoice::speedrun_91) return 127;
  constexpr std::int64_t stages[][2] = {{16384, 63}, {32768, 95}, {49152, 127}}, rounding = 128;
  for (const auto& [tokens, most] : stages)
    if (row_tokens == tokens) return most;
  const auto offsets = (row_tokens / 300 + rounding - 1) / rounding * rounding;
  return std::max<std::int64_t>(offsets - 1, 0);
}

std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size) {
  auto order = make_order(settings, tokens, rank, world_size);
  order->reshape(batch_shape(settings, world_size, {}));
  return order;
}

std::optional<SegmentRule> training_segments(const Settings& settings) {
  if (!mode::segments_attention(settings)) return {};
  assert(!settings.data.bos_id.automatic);
  return SegmentRule{.bos_id = settings.data.bos_id.value, .limit = segment_limit(settings)};
}

void warn_without_documents(const Settings& settings, const TokenSource& source,
                            std::int64_t bos_id) {
  const bool attention = mode::segments_attention(settings);
  if (!attention && !mode::has_gated_smear(settings)) return;
  if (const auto tokens = tokens_without(source, bos_id)) {
    log_warn_once(
        "{}: no document begins in the first {} tokens (expected the token BOS_ID={} at each one's "
        "beginning), so that {} all of them as one; set BOS_ID to the token that begins them, or "
        "{}",
        source.pattern(), *tokens, bos_id,
        attention ? "DOCUMENT_ATTENTION=1 takes" : "the smear gate takes",
        attention ? "DOCUMENT_ATTENTION=0" : "make shards that have it");
  }
}

}  // namespace tg
