#include "eval/sampling/generate.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/sampling/text_stream.h"

namespace tg {

std::int64_t Sampler::draw(const at::Tensor& logits_v) {
  const auto logits = logits_v.detach().to(at::kCPU, at::kDouble);
  if (options_.temperature == 0) return logits.argmax().const_data_ptr<std::int64_t>()[0];
  // Stable: equal logits are ordered by id.
  auto [sorted, ids] = at::sort(logits / options_.temperature, /*stable=*/true, /*dim=*/0,
                                /*descending=*/true);
  if (options_.top_k > 0) sorted = sorted.narrow(0, 0, std::min(options_.top_k, sorted.size(0)));
  const auto sums = sorted.softmax(0).cumsum(0);
  const auto* const cumulative = sums.const_data_ptr<double>();
  const auto* const end = cumulative + sums.numel();
  // The last kept token is the one whose cumulative probability reaches p.
  const auto* last = std::lower_bound(cumulative, end, options_.top_p);
  if (last == end) --last;
  constexpr double kUnit = 0x1.0p-53;
  const double point = static_cast<double>(random_() >> 11) * kUnit * *last;
  const auto chosen = std::upper_bound(cumulative, last, point) - cumulative;
  return ids.const_data_ptr<std::int64_t>()[chosen];
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt) {
  const auto valid = valid_utf8_prefix(prompt);
  REQUIRE(valid == prompt.size(), ExitCode::usage,
          "--prompt is no UTF-8 text (expected UTF-8, found byte 0x{:02x} at {}); convert it",
          static_cast<unsigned char>(prompt[valid]), valid);
  std::vector<TokenId> ids;
  if (tokenizer.bos_id() >= 0) ids.push_back(static_cast<TokenId>(tokenizer.bos_id()));
  tokenizer.encode(prompt, ids);
  const auto unknown = std::ranges::find(ids, static_cast<TokenId>(tokenizer.unknown_id()));
  REQUIRE(unknown == ids.end(), ExitCode::usage,
          "--prompt has characters that the tokenizer does not know (expected text of its pieces, "
          "found an unknown one after \"{}\"); leave them out, or use another TOKENIZER_PATH",
          tokenizer.decode(std::span(ids).first(static_cast<std::size_t>(unknown - ids.begin()))));
  REQUIRE(!ids.empty(), ExitCode::usage,
          "--prompt is empty, and the tokenizer has no token that begins a text; give a prompt");
  return ids;
}

at::Tensor next_logits(const Gpt& model, std::span<const TokenId> ids,
                       const std::optional<SegmentRule>& segments, DecodeCache& cache,
                       at::Device device) {
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    const std::vector<std::int64_t> wide(ids.begin() + begin, ids.begin() + end);
    return at::tensor(wide, at::kLong).unsqueeze(0).to(device);
  };
  const auto begin = segments ? segment_starts(ids, std::ssize(ids), *segments).back() : 0;
  if (!model.plan().decodes_from_cache) {
    const auto length = std::ssize(ids) - begin;
    return model.logits(part(begin, std::ssize(ids)), {length - 1, length}, cache.context)
        .squeeze(1);
  }
  if (begin > cache.length) cache.add(part(cache.length, begin));
  if (begin == cache.length) cache.begin_segment();
  return model.next_logits(part(cache.length, std::ssize(ids)), cache);
}

std::int64_t generate(const Gpt& model, const Tokenizer& tokenizer, std::string_view prompt,
                      const GenerateOptions& options, at::Device device,
                      const std::function<void(std::string_view)>& on_text) {
  auto ids = encode_prompt(tokenizer, prompt);
  StopText until_stop(options.stop_text, on_text);
  TextStream text(tokenizer, ids, [&](std::string_view part) { until_stop.add(part); });
  const auto keep_last = [&](std::int64_t count) {
    if (std::ssize(ids) > count) ids.erase(ids.begin(), ids.end() - count);
  };
  keep_last(options.context);
  Sampler sampler(options.sampling);
  const auto& segments = options.segments;
  auto cache = model.make_cache(
      1, options.context, segments ? longest_segment(options.context, *segments) : options.context);
  std::int64_t drawn = 0;
  while (drawn < options.tokens && !until_stop.found()) {
    if (!options.kv_cache || std::ssize(ids) > options.context) {
      if (std::ssize(ids) > options.context)
        keep_last(std::max<std::int64_t>(options.context / 2, 1));
      cache.clear();
    }
    const auto logits = next_logits(model, ids, segments, cache, device);
    // Rows beyond the tokenizer's pieces pad the vocabulary.
    const auto id = sampler.draw(logits[0].slice(0, 0, tokenizer.pieces()));
    ++drawn;
    if (id == options.stop_id) break;
    ids.push_back(static_cast<TokenId>(id));
    text.add(ids.back());
  }
  until_stop.end();
  return drawn;
}

}  // namespace tg
