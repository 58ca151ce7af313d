#include "data/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/shown.h"

namespace tg {
namespace {

constexpr std::string_view guard_word = "a";       // see encode_continued()
constexpr std::string_view space_mark = "\u2581";  // a space in a piece

PieceKind kind_of(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsUnknown(id)) return PieceKind::unknown;
  if (processor.IsControl(id)) return PieceKind::control;
  if (processor.IsUnused(id)) return PieceKind::unused;
  if (processor.IsByte(id)) return PieceKind::byte;
  return PieceKind::normal;
}

// Spaces in the place of their marks.
std::string with_spaces(std::string_view pieces) {
  std::string text;
  while (true) {
    const auto mark = pieces.find(space_mark);
    text += pieces.substr(0, mark);
    if (mark == std::string_view::npos) return text;
    text += ' ';
    pieces.remove_prefix(mark + space_mark.size());
  }
}

}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view bytes, const std::string& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  // Scanned first: the library logs to standard error about what it cannot parse.
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
          shown(reason, 200));
  const int count = processor_->GetPieceSize();
  REQUIRE(count <= kMostPieces, ExitCode::config,
          "tokenizer {} is too large for 16-bit token ids (at most {} pieces, found {})", path,
          kMostPieces, count);
  for (int id = 0; id < count; ++id) {
    pieces_.push_back(processor_->IdToPiece(id));
    kinds_.push_back(kind_of(*processor_, id));
  }
  splittable_ = find_whether_splittable(proto_.bpe);
}

SentencePieceModel::~SentencePieceModel() = default;

int SentencePieceModel::bos_id() const {
  return processor_->bos_id();
}
int SentencePieceModel::unknown_id() const {
  return processor_->unk_id();
}

void SentencePieceModel::encode(std::string_view text, std::vector<std::uint16_t>& ids) const {
  std::vector<int> found;
  const auto status = processor_->Encode({text.data(), text.size()}, &found);
  REQUIRE(status.ok(), ExitCode::bad_data, "cannot tokenize a text of {} bytes ({})", text.size(),
          status.message());
  ids.insert(ids.end(), found.begin(), found.end());
}

std::string SentencePieceModel::decode(std::span<const std::uint16_t> ids) const {
  std::string text;
  const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  REQUIRE(status.ok(), ExitCode::bad_data, "cannot decode {} tokens ({})", ids.size(),
          status.message());
  return text;
}

// As in encode_continued(), behind guard_word, whose text is removed.
std::string SentencePieceModel::decode_continued(std::span<const std::uint16_t> ids) const {
  std::vector<std::uint16_t> guarded;
  encode(guard_word, guarded);
  const auto guard_bytes = decode(guarded).size();
  guarded.insert(guarded.end(), ids.begin(), ids.end());
  return decode(guarded).substr(guard_bytes);
}

std::string SentencePieceModel::keeping_flags() const {
  std::string flags;
  if (proto_.maps_characters) flags = "--normalization_rule_name=identity";
  if (proto_.maps_characters && proto_.removes_spaces) flags += ' ';
  if (proto_.removes_spaces) flags += "--remove_extra_whitespaces=false";
  return flags;
}

// Of a piece that is unknown, the library returns the text.
std::string SentencePieceModel::normalized(std::string_view text) const {
  std::vector<std::string> pieces;
  const auto status = processor_->Encode({text.data(), text.size()}, &pieces);
  REQUIRE(status.ok(), ExitCode::bad_data, "cannot tokenize a text of {} bytes ({})", text.size(),
          status.message());
  std::string left;
  for (const std::string& piece : pieces) {
    const int id = processor_->PieceToId(piece);
    if (processor_->IsByte(id)) {
      left += static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));  // <0x41>
    } else {
      left += piece;
    }
  }
  left = with_spaces(left);
  return proto_.adds_space && left.starts_with(' ') ? left.substr(1) : left;
}

// BPE merges do not cross a space if pieces have a space only at their start, and if a space is a
// piece, it separates runs of unknown characters. Unigram models are not split: they sum floats
// over the whole text, and a rounding may change the result.
bool SentencePieceModel::find_whether_splittable(bool bpe) const {
  bool space_known = false;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const std::string& text = pieces_[id];
    if (kinds_[id] != PieceKind::normal) continue;
    if (text == space_mark) space_known = true;
    const auto last = text.rfind(space_mark);
    if (last != std::string::npos && last > 0) return false;
    if (text.find(' ') != std::string::npos) return false;
  }
  std::vector<std::uint16_t> word, two;
  encode(guard_word, word);
  encode(std::string(guard_word) + " b", two);
  return bpe && space_known && two.size() > word.size() &&
         std::equal(word.begin(), word.end(), two.begin());
}

// A model treats the start of a text specially (adds a space, drops white space), which must not
// happen to a later part: encodes it behind guard_word and removes that word's ids.
void SentencePieceModel::encode_continued(std::string_view part,
                                          std::vector<std::uint16_t>& ids) const {
  std::vector<std::uint16_t> guard, guarded;
  encode(guard_word, guard);
  encode(std::string(guard_word).append(part), guarded);
  ids.insert(ids.end(), guarded.begin() + std::ssize(guard), guarded.end());
}

}  // namespace tg
