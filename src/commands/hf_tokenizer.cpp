#include "commands/hf_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "text/byte_spelling.h"

namespace tg {

nlohmann::json hf_tokenizer(const BpeVocabulary& vocabulary) {
  using nlohmann::json;
  const auto& pieces = vocabulary.pieces;
  auto ids = json::object(), special = json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (vocabulary.kinds[id] == PieceKind::unused) continue;
    const bool is_text = vocabulary.kinds[id] == PieceKind::normal;
    ids[is_text ? spelled(pieces[id]) : pieces[id]] = id;
    if (is_text) continue;
    special.push_back({{"id", id},
                       {"content", pieces[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
  }

  // Ordered by rank, then by left piece.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> ordered;
  for (const auto& [pair, merge] : vocabulary.merges) ordered.emplace_back(merge.rank, pair);
  std::ranges::sort(ordered);
  auto merges = json::array();
  for (const auto& [rank, pair] : ordered)
    merges.push_back(spelled(pieces[BpeVocabulary::left_of(pair)]) + ' ' +
                     spelled(pieces[BpeVocabulary::right_of(pair)]));

  const auto byte_level = [](bool space, bool gpt2_pattern) {
    return json{{"type", "ByteLevel"},
                {"add_prefix_space", space},
                {"trim_offsets", true},
                {"use_regex", gpt2_pattern}};
  };
  auto pre_tokenizer = byte_level(false, vocabulary.pattern.empty());
  if (!vocabulary.pattern.empty()) {
    const json split = {{"type", "Split"},
                        {"pattern", {{"Regex", vocabulary.pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", {split, pre_tokenizer}}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", special},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", byte_level(true, true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", vocabulary.whole_words},
            {"vocab", ids},
            {"merges", merges}}}};
}

nlohmann::json hf_tokenizer_config(const BpeVocabulary& vocabulary, int bos_id) {
  nlohmann::json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                           {"clean_up_tokenization_spaces", false}};
  if (bos_id < 0) return config;
  const auto& begin = vocabulary.pieces[static_cast<std::size_t>(bos_id)];
  config["bos_token"] = begin;
  config["eos_token"] = begin;
  return config;
}

}  // namespace tg
