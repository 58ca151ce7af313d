#include "commands/hf_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tg {

nlohmann::json hf_tokenizer(const BpeVocabulary& vocabulary) {
  using nlohmann::json;
  const auto& pieces = vocabulary.pieces;
  auto ids = json::object();
  for (std::size_t id = 0; id < pieces.size(); ++id) ids[spelled(pieces[id])] = id;

  // In the order of the ids that they make, and of their left pieces.
  std::vector<std::pair<std::uint16_t, std::uint32_t>> ordered;
  for (const auto& [pair, id] : vocabulary.merges) ordered.emplace_back(id, pair);
  std::ranges::sort(ordered);
  auto merges = json::array();
  for (const auto& [id, pair] : ordered)
    merges.push_back(spelled(pieces[pair >> 16]) + ' ' + spelled(pieces[pair & 0xffff]));

  const auto byte_level = [](bool space) {
    return json{{"type", "ByteLevel"},
                {"add_prefix_space", space},
                {"trim_offsets", true},
                {"use_regex", true}};
  };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", pieces.size() - 1},
             {"content", pieces.back()},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(false)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
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

nlohmann::json hf_tokenizer_config(const BpeVocabulary& vocabulary) {
  const auto& end_of_text = vocabulary.pieces.back();
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"bos_token", end_of_text},
          {"eos_token", end_of_text},
          {"clean_up_tokenization_spaces", false}};
}

}  // namespace tg
