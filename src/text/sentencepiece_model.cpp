#include "text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/escaped.h"
#include "base/strings.h"

namespace tg {
namespace {

// The library uses up to 140 bytes of memory for each byte of a text. Above this size encode_long()
// computes equal ids: 55 MB take 0.2 GB instead of 7.6 GB, and half the time.
constexpr std::size_t long_text_bytes = 1 << 20;
constexpr std::size_t part_bytes = 1 << 14;
constexpr std::string_view guard_word = "a";       // see encode_continued()
constexpr std::string_view space_mark = "\u2581";  // spelling of a space in a piece
constexpr std::size_t max_piece_bytes = 1 << 14;   // bytes; keeps counts within 16 bits

PieceKind kind_of(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsUnknown(id)) return PieceKind::unknown;
  if (processor.IsControl(id)) return PieceKind::control;
  if (processor.IsUnused(id)) return PieceKind::unused;
  if (processor.IsByte(id)) return PieceKind::byte;
  return PieceKind::normal;
}

std::string normalisation_of(const ModelProto& proto) {
  std::string names;
  if (proto.has_rules) names = proto.rules.empty() ? "rules" : escaped(proto.rules);
  if (proto.removes_spaces) names += names.empty() ? "extra_whitespaces" : ",extra_whitespaces";
  return names;
}

std::string keeping_flags_of(const ModelProto& proto) {
  std::string flags;
  if (proto.has_rules) flags = "--normalization_rule_name=identity";
  if (proto.has_rules && proto.removes_spaces) flags += ' ';
  if (proto.removes_spaces) flags += "--remove_extra_whitespaces=false";
  return flags;
}

// The library's predefined normalizers, whose rules join no two letters; other normalizers are
// custom.
constexpr std::string_view own_normalizers[] = {"identity", "nfkc", "nmt_nfkc", "nfkc_cf",
                                                "nmt_nfkc_cf"};

}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view bytes, const std::string& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  // Scanned first, since the library logs to standard error what it cannot parse.
  const auto proto = scan_model_proto(bytes);
  REQUIRE(proto && proto->has_trainer && proto->has_normalizer, ExitCode::bad_data,
          "tokenizer {} is cut short or no SentencePiece model ({} bytes); copy it again", path,
          bytes.size());
  proto_ = *proto;
  std::string reason;
  try {
    const auto status = processor_->LoadFromSerializedProto({bytes.data(), bytes.size()});
    if (!status.ok()) reason = status.message();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  REQUIRE(reason.empty(), ExitCode::bad_data, "tokenizer {} is no SentencePiece model ({})", path,
          escaped(reason, 200));
  const int count = processor_->GetPieceSize();
  REQUIRE(count <= kMaxPieces, ExitCode::config,
          "tokenizer {} is too large (expected at most {} pieces, found {})", path, kMaxPieces,
          count);
  for (int id = 0; id < count; ++id) {
    pieces_.push_back(processor_->IdToPiece(id));
    kinds_.push_back(kind_of(*processor_, id));
    REQUIRE(pieces_.back().size() <= max_piece_bytes, ExitCode::bad_data,
            "tokenizer {}: piece {} has {} bytes (expected at most {})", path, id,
            pieces_.back().size(), max_piece_bytes);
  }
  format_ = "sentencepiece";
  spaces_ = find_spaces();
  normalisation_ = normalisation_of(proto_);
  keeping_flags_ = keeping_flags_of(proto_);
  bos_id_ = processor_->bos_id();
  unknown_id_ = processor_->unk_id();
  splittable_ = find_whether_splittable();
  if (proto_.type == ModelType::unigram && std::ranges::count(own_normalizers, proto_.rules) > 0)
    unigram_ = unigram_pieces();
}

SentencePieceModel::~SentencePieceModel() = default;

void SentencePieceModel::encode(std::string_view text, std::vector<TokenId>& ids) const {
  if (unigram_ && text.size() > long_text_bytes) return encode_long(text, ids);
  std::vector<int> found;
  const auto status = processor_->Encode({text.data(), text.size()}, &found);
  REQUIRE(status.ok(), ExitCode::bad_data, "cannot tokenize a text of {} bytes ({})", text.size(),
          status.message());
  ids.insert(ids.end(), found.begin(), found.end());
}

// Returns the normalized text: the concatenation of the pieces, whatever the segmentation.
std::string SentencePieceModel::joined_pieces(std::string_view text) const {
  std::string all;
  const auto encoded = processor_->EncodeAsImmutableProto({text.data(), text.size()});
  for (const auto& piece : encoded.pieces()) {
    const int id = static_cast<int>(piece.id());
    if (kinds_[static_cast<std::size_t>(id)] == PieceKind::byte) {
      all += byte_of_piece(piece.piece());
    } else {
      all += piece.piece();
    }
  }
  return all;
}

// Returns null if the text's last character is followed by a space mark, so that parts cannot be
// joined. Also fills whole_.
std::unique_ptr<const UnigramPieces> SentencePieceModel::unigram_pieces() {
  const auto guard = joined_pieces(guard_word), two = joined_pieces("ab");
  if (!two.starts_with(guard) || joined_pieces("abb") != two + two.substr(guard.size()))
    return nullptr;
  std::vector<UnigramPiece> pieces(pieces_.size());
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (kinds_[id] != PieceKind::normal) continue;
    pieces[id] = {.text = pieces_[id],
                  .score = processor_->GetScore(static_cast<int>(id)),
                  .user_defined = proto_.user_defined[id]};
    if (proto_.user_defined[id]) whole_.push_back(pieces_[id]);
  }
  return std::make_unique<UnigramPieces>(pieces);
}

// Finds the best path through the normalized text. Each part but the first is normalized after
// guard_word: see encode_continued().
void SentencePieceModel::encode_long(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<TokenId> bytes(256);
  bool has_bytes = false;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    if (kinds_[id] != PieceKind::byte) continue;
    bytes[static_cast<unsigned char>(byte_of_piece(pieces_[id]))] = static_cast<TokenId>(id);
    has_bytes = true;
  }
  bool after_unknown = false;
  const auto take = [&](int id, std::string_view step) {
    const bool known = id != UnigramPath::unknown;
    if (known) {
      ids.push_back(static_cast<TokenId>(id));
    } else if (has_bytes) {
      for (const char byte : step) ids.push_back(bytes[static_cast<unsigned char>(byte)]);
    } else if (!after_unknown) {  // consecutive unknown characters are one token
      ids.push_back(static_cast<TokenId>(unknown_id_));
    }
    after_unknown = !known;
  };
  UnigramPath path(*unigram_);
  const auto guard_bytes = joined_pieces(guard_word).size();
  const auto parts = split_between_letters(text, part_bytes, whole_);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool first = i == 0;
    const auto part =
        joined_pieces(first ? std::string(parts[i]) : std::string(guard_word).append(parts[i]));
    path.add(std::string_view(part).substr(first ? 0 : guard_bytes), i + 1 == parts.size(), take);
  }
}

std::string SentencePieceModel::decode(std::span<const TokenId> ids) const {
  std::string text;
  const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  REQUIRE(status.ok(), ExitCode::bad_data, "cannot decode {} tokens ({})", ids.size(),
          status.message());
  return text;
}

// Decodes after guard_word, as encode_continued() encodes, and removes its text.
std::string SentencePieceModel::decode_continued(std::span<const TokenId> ids) const {
  std::vector<TokenId> guarded;
  encode(guard_word, guarded);
  const auto guard_bytes = decode(guarded).size();
  guarded.insert(guarded.end(), ids.begin(), ids.end());
  return decode(guarded).substr(guard_bytes);
}

std::string SentencePieceModel::normalized(std::string_view text) const {
  auto left = replaced(joined_pieces(text), space_mark, " ");
  if (!proto_.adds_space) return left;
  if (proto_.space_as_suffix) {
    if (left.ends_with(' ')) left.pop_back();
  } else if (left.starts_with(' ')) {
    left.erase(0, 1);
  }
  return left;
}

// If leading spaces are removed, a document begins without a mark; the reference implementation
// then counts none after an unknown piece, whatever the model adds.
SpaceMarks SentencePieceModel::find_spaces() const {
  SpaceMarks spaces{.mark = proto_.marks_spaces ? space_mark : " "};
  spaces.first_is_added = !proto_.space_as_suffix && (proto_.adds_space || proto_.removes_spaces);
  spaces.last_is_added = proto_.space_as_suffix && proto_.adds_space;
  bool known = false;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    known |= kinds_[id] == PieceKind::normal && pieces_[id] == spaces.mark;
  }
  // A word model has no piece for a space and an unknown word together.
  known &= proto_.type != ModelType::word;
  spaces.may_be_spelled = !known;
  return spaces;
}

// BPE merges do not cross a space if pieces have spaces only at their beginning and a space is a
// piece, which separates runs of unknown characters. Unigram models are not split: they sum floats
// over the whole text, and rounding may change the result.
bool SentencePieceModel::find_whether_splittable() const {
  if (proto_.type != ModelType::bpe) return false;
  bool space_known = false;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const std::string& text = pieces_[id];
    if (kinds_[id] != PieceKind::normal) continue;
    if (text == space_mark) space_known = true;
    const auto last = text.rfind(space_mark);
    if (last != std::string::npos && last > 0) return false;
    if (text.find(' ') != std::string::npos) return false;
  }
  std::vector<TokenId> word, two;
  encode(guard_word, word);
  encode(std::string(guard_word) + " b", two);
  return space_known && two.size() > word.size() &&
         std::equal(word.begin(), word.end(), two.begin());
}

// Models treat the beginning of a text specially (add a space, drop white space), which must not
// happen to a later part: encodes the part after guard_word and removes that word's ids.
void SentencePieceModel::encode_continued(std::string_view part, std::vector<TokenId>& ids) const {
  std::vector<TokenId> guard, guarded;
  encode(guard_word, guard);
  encode(std::string(guard_word).append(part), guarded);
  ids.insert(ids.end(), guarded.begin() + std::ssize(guard), guarded.end());
}

void SentencePieceModel::encode_parts(std::string_view text, bool continued,
                                      std::vector<TokenId>& ids,
                                      std::vector<std::string>& parts) const {
  std::vector<TokenId> guard;
  std::string guarded;
  if (continued) {
    encode(guard_word, guard);
    text = guarded.append(guard_word).append(text);
  }
  const auto encoded = processor_->EncodeAsImmutableProto({text.data(), text.size()});
  for (std::size_t i = guard.size(); i < encoded.pieces_size(); ++i) {
    ids.push_back(static_cast<TokenId>(encoded.pieces(static_cast<int>(i)).id()));
    parts.emplace_back(encoded.pieces(static_cast<int>(i)).surface());
  }
}

}  // namespace tg
