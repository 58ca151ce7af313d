#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/escaped.h"
#include "files/json_file.h"
#include "text/bpe_vocabulary.h"
#include "text/byte_spelling.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 10;  // a post_processor has some six
constexpr std::size_t kMaxBytes = 128 << 20;

std::string type_of(const json& part) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  return type != part.end() && type->is_string() ? type->get<std::string>() : "none";
}

class Reader {
 public:
  Reader(const json& file, const std::string& path) : file_(file), where_("tokenizer " + path) {}

  BpeVocabulary read() && {
    require(
        file_.is_object() && file_.contains("model"),
        "JSON without a model (expected a tokenizer.json; beside a vocab.json, give the merges.txt "
        "that is published with it)");
    require_model(file_["model"]);
    if (file_.contains("normalizer")) read_normalizer(file_["normalizer"]);
    const auto pre_tokenizer = file_.find("pre_tokenizer");
    require(pre_tokenizer != file_.end(),
            "no pre_tokenizer (expected one that ends with ByteLevel)");
    vocabulary_.format = "bpe";
    read_pre_tokenizer(*pre_tokenizer);
    require(byte_level_, "no pre_tokenizer ByteLevel (expected a byte-level BPE)");
    vocabulary_.pre_tokenizer = PreTokenizer(patterns_, where_);
    read_pieces();
    read_merges();
    return std::move(vocabulary_);
  }

 private:
  void require(bool holds, const std::string& found) const {
    REQUIRE(holds, ExitCode::bad_data, "{} has {}", where_, found);
  }

  void require_model(const json& model) {
    const auto type = type_of(model);
    require(type == "BPE" || (type == "none" && model.contains("merges")),
            fmt::format("the model {} (expected BPE)", type));
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto found = model.find(affix);
      require(found == model.end() || found->is_null() || *found == "",
              fmt::format("a {} (expected none in a byte-level BPE)", affix));
    }
    require(!model.value("byte_fallback", false), "byte_fallback (expected a byte-level BPE)");
    vocabulary_.whole_words = model.value("ignore_merges", false);
  }

  void read_normalizer(const json& part) {
    if (part.is_null()) return;
    const auto type = type_of(part);
    if (type == "Sequence" && part.contains("normalizers")) {
      for (const auto& one : part["normalizers"]) read_normalizer(one);
      return;
    }
    require(type == "NFC",
            fmt::format("a normalizer, {}, which changes the text (expected none or NFC)", type));
    vocabulary_.nfc = true;
  }

  void read_pre_tokenizer(const json& part) {
    const auto type = type_of(part);
    require(!byte_level_, fmt::format("a pre_tokenizer {} behind ByteLevel", type));
    if (type == "Sequence") {
      const auto parts = part.find("pretokenizers");
      require(parts != part.end() && parts->is_array(), "a Sequence without pretokenizers");
      for (const auto& one : *parts) read_pre_tokenizer(one);
    } else if (type == "ByteLevel") {
      require(!part.value("add_prefix_space", true),
              "add_prefix_space, which changes the text (expected false)");
      if (part.value("use_regex", true)) patterns_.emplace_back(kGpt2Pattern);
      byte_level_ = true;
    } else if (type == "Split") {
      read_split(part);
    } else if (type == "Digits") {
      patterns_.emplace_back(part.value("individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    } else {
      require(false, fmt::format("the pre_tokenizer {} (expected ByteLevel, Split, Digits or a "
                                 "Sequence of these)",
                                 type));
    }
  }

  void read_split(const json& part) {
    const auto behavior = part.value("behavior", "");
    require(behavior == "Isolated" || (behavior == "Removed" && part.value("invert", false)),
            fmt::format("a Split that is {} (expected Isolated)", behavior));
    const auto pattern = part.find("pattern");
    require(pattern != part.end() && pattern->is_object() && pattern->size() == 1 &&
                pattern->begin()->is_string(),
            "a Split without a pattern");
    const auto text = pattern->begin()->get<std::string>();
    patterns_.push_back(pattern->contains("String") ? "\\Q" + text + "\\E"
                                                    : pcre2_pattern(text, where_));
  }

  void add_piece(const std::string& name, const json& id, PieceKind kind) {
    require(id.is_number_unsigned(),
            fmt::format("the piece \"{}\" without an id", escaped(name, 40)));
    const auto number = id.get<std::uint64_t>();
    require_id(number, name, count_, where_);
    vocabulary_.add_ids_to(number);
    const auto bytes = kind == PieceKind::normal ? bytes_spelled(name) : name;
    require(bytes.has_value(),
            fmt::format("the piece \"{}\", which spells no bytes", escaped(name, 40)));
    auto& known = vocabulary_.kinds[number];
    require(known == PieceKind::unused || kind == PieceKind::control,
            fmt::format("two pieces with the id {}", number));
    known = kind;
    vocabulary_.pieces[number] = *bytes;
    if (kind == PieceKind::normal) ids_.emplace(*bytes, static_cast<TokenId>(number));
  }

  void read_pieces() {
    const auto added = file_.find("added_tokens");
    std::vector<std::pair<std::string, json>> special;
    if (added != file_.end()) {
      for (const auto& token : *added) {
        require(token.is_object() && token.contains("content") && token.contains("id") &&
                    token["content"].is_string(),
                "an added token without content and id");
        special.emplace_back(token["content"].get<std::string>(), token["id"]);
      }
    }
    const auto vocab = file_["model"].find("vocab");
    require(vocab != file_["model"].end() && vocab->is_object(), "a model without vocab");
    count_ = vocab->size() + special.size();
    for (const auto& [name, id] : vocab->items()) {
      const bool is_special =
          std::ranges::find(special, name, &decltype(special)::value_type::first) != special.end();
      if (!is_special) add_piece(name, id, PieceKind::normal);
    }
    for (const auto& [name, id] : special) add_piece(name, id, PieceKind::control);
    for (int byte = 0; byte < 256; ++byte)
      require(ids_.contains({static_cast<char>(byte)}),
              fmt::format("no piece for the byte 0x{:02x} (expected all 256)", byte));
    vocabulary_.bos_id = beginning_of_documents(vocabulary_);
  }

  TokenId id_of(const std::string& spelled_piece) const {
    const auto bytes = bytes_spelled(spelled_piece);
    const auto found = bytes ? ids_.find(*bytes) : ids_.end();
    require(found != ids_.end(),
            fmt::format("a merge with \"{}\", which is no piece", escaped(spelled_piece, 40)));
    return found->second;
  }

  void read_merges() {
    const auto merges = file_["model"].find("merges");
    require(merges != file_["model"].end() && merges->is_array(), "a model without merges");
    std::uint32_t rank = 0;
    for (const auto& merge : *merges) {
      std::string left, right;
      if (merge.is_string()) {
        const auto text = merge.get<std::string>();
        const auto space = text.find(' ');
        require(space != std::string::npos, fmt::format("the merge \"{}\"", escaped(text, 40)));
        left = text.substr(0, space), right = text.substr(space + 1);
      } else {
        require(
            merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
            "a merge that is no pair of pieces");
        left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
      }
      const auto left_id = id_of(left), right_id = id_of(right);
      vocabulary_.add_merge(left_id, right_id, {.rank = rank++, .id = id_of(left + right)});
    }
  }

  const json& file_;
  std::string where_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, TokenId> ids_;
  std::size_t count_ = 0;              // of pieces in the file
  std::vector<std::string> patterns_;  // of the pre-tokenizer
  bool byte_level_ = false;
};

}  // namespace

bool is_tokenizer_json(std::string_view bytes) {
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

BpeVocabulary read_tokenizer_json(std::string_view bytes, const std::string& path) {
  REQUIRE(bytes.size() <= kMaxBytes, ExitCode::bad_data,
          "tokenizer {} has {} bytes (expected at most {})", path, bytes.size(), kMaxBytes);
  const auto file = parse_json(bytes, kMaxDepth);
  REQUIRE(file && !file->is_discarded(), ExitCode::bad_data,
          "tokenizer {} is no JSON (expected a tokenizer.json); copy it again", path);
  try {
    return Reader(*file, path).read();
  } catch (const json::exception& error) {  // a member of another type
    fail(ExitCode::bad_data, "tokenizer {}: {}", path, error.what());
  }
}

}  // namespace tg
