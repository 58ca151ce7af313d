#include "eval/scores/byte_audit.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/caseops.h"

namespace tg {

namespace {

constexpr std::string_view space_mark = "\u2581";

// Decodes a document as its tokenizer's library does, with U+FFFD for bytes that are not UTF-8.
// Restores capitals if the vocabulary has CaseOps operators, whatever CASEOPS_ENABLED says.
// Corrects two properties of SentencePiece's decoder: spaces that it leaves as U+2581, and the
// space that its normaliser added to the document, which decoding a single word reveals.
class Decoder {
 public:
  explicit Decoder(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), is_coded_(tokenizer.is_for_caseops()) {
    if (tokenizer.byte_level()) return;
    for (int id = 0; id < tokenizer.pieces(); ++id)
      if (tokenizer.kind(id) == Tokenizer::Kind::normal && find_added(tokenizer.piece(id))) break;
    spelled_spaces_ = 0;
  }

  std::string text(std::span<const TokenId> document) {
    auto text = decode(document);
    if (text.starts_with(added_before_)) text.erase(0, added_before_.size());
    if (text.ends_with(added_behind_)) text.resize(text.size() - added_behind_.size());
    return text;
  }
  // Number of spaces that the library left as U+2581 in the texts so far.
  std::int64_t spelled_spaces() const { return spelled_spaces_; }

 private:
  // Finds what the tokenizer adds to a text, if it knows the word in this piece.
  bool find_added(const std::string& piece) {
    const auto word = replaced(replaced(piece, space_mark, ""), " ", "");
    std::vector<TokenId> ids;
    tokenizer_.encode(word, ids);
    const auto text = decode(ids);
    const auto at = text.find(word);
    const bool known = !std::ranges::count(ids, static_cast<TokenId>(tokenizer_.unknown_id()));
    if (word.empty() || !known || at == std::string::npos) return false;
    added_before_ = text.substr(0, at);
    added_behind_ = text.substr(at + word.size());
    return true;
  }
  std::string decode(std::span<const TokenId> ids) {
    // Decodes as a continuation: else the decoder drops a leading space, whether it is the text's
    // or an added one.
    auto bytes = tokenizer_.model().decode_continued(ids);
    if (is_coded_) bytes = CaseDecoder().add(bytes);
    if (tokenizer_.byte_level()) return as_utf8(std::move(bytes));
    auto text = replaced(bytes, space_mark, " ");
    spelled_spaces_ += (std::ssize(bytes) - std::ssize(text)) / 2;  // U+2581 has three bytes
    return text;
  }

  const Tokenizer& tokenizer_;
  const bool is_coded_;
  std::string added_before_, added_behind_;
  std::int64_t spelled_spaces_ = 0;
};

// Counts the bytes of `document`, which excludes the control pieces around it; `boundary`: one of
// them.
std::int64_t count_document(const ByteTable& table, TokenId boundary,
                            std::span<const TokenId> document) {
  ByteCounter counter(table);
  counter.next(boundary);
  std::int64_t bytes = 0;
  for (const auto id : document) bytes += counter.next(id);
  return bytes + counter.next(boundary);
}

}  // namespace

ByteAudit audit_bytes(const TokenSource& source, std::int64_t predictions,
                      const Tokenizer& tokenizer, const TextBytes& bytes) {
  ByteAudit audit;
  Decoder decoder(tokenizer);
  std::optional<TokenId> boundary;  // before the document; nullopt: it began before the split
  std::vector<TokenId> document, chunk, entries;
  std::int64_t in_sidecar = 0;  // bytes of the document in the sidecar
  const auto add_document = [&] {
    if (!boundary || document.empty()) return;
    const auto counted =
        bytes.sidecar ? in_sidecar : count_document(*bytes.table, *boundary, document);
    const auto text = std::ssize(decoder.text(document));
    ++audit.documents;
    audit.tokens += std::ssize(document);
    audit.counted += counted;
    audit.text += text;
    audit.differ += counted != text;
    audit.spelled_spaces = decoder.spelled_spaces();
  };
  const auto all = source.tokens_up_to(std::numeric_limits<std::int64_t>::max());
  constexpr std::int64_t kChunk = 1 << 20;
  for (std::int64_t begin = 0; begin < all; begin += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, all - begin)));
    source.read_at(begin, chunk);
    entries.resize(chunk.size());
    if (bytes.sidecar) bytes.sidecar->read_at(begin, entries);
    for (std::int64_t i = 0; i < std::ssize(chunk); ++i) {
      const auto id = chunk[static_cast<std::size_t>(i)];
      if (tokenizer.kind(static_cast<int>(id)) != Tokenizer::Kind::control) {
        document.push_back(id);
        in_sidecar += entries[static_cast<std::size_t>(i)];
        continue;
      }
      add_document();
      if (begin + i > predictions) return audit;
      boundary = id;
      document.clear();
      in_sidecar = 0;
    }
  }
  if (audit.documents == 0) add_document();
  return audit;
}

}  // namespace tg
