#include "text/byte_level_bpe.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "text/nfc.h"

namespace tg {
namespace {

constexpr TokenId kRemoved = ~TokenId{0};

// Piece of a word, in a doubly linked list: a merge gives the left piece the new id and removes the
// right one.
struct Node {
  TokenId id;                  // kRemoved: no node any more
  std::uint32_t before, next;  // the word's size: none
};

// Possible merge; ordered by rank, then from left to right.
struct Candidate {
  BpeVocabulary::Merge merge;
  std::uint32_t left;         // index of the left node
  TokenId left_id, right_id;  // when the candidate was found

  bool operator>(const Candidate& other) const {
    return std::tie(merge.rank, left) > std::tie(other.merge.rank, other.left);
  }
};

}  // namespace

ByteLevelBpe::ByteLevelBpe(BpeVocabulary vocabulary)
    : pre_tokenizer_(std::move(vocabulary.pre_tokenizer)),
      nfc_(vocabulary.nfc),
      merges_(std::move(vocabulary.merges)) {
  pieces_ = std::move(vocabulary.pieces);
  kinds_ = std::move(vocabulary.kinds);
  format_ = std::move(vocabulary.format);
  if (nfc_) normalisation_ = "NFC";
  byte_level_ = true;  // every byte is a piece, so there is no unknown_id_
  splittable_ = pre_tokenizer_.may_cut_before_spaces();
  bos_id_ = vocabulary.bos_id;
  const auto is_text = [&](std::size_t id) { return kinds_[id] == PieceKind::normal; };
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    if (!is_text(id) || pieces_[id].size() > 1) continue;
    id_of_byte_[static_cast<unsigned char>(pieces_[id].front())] = static_cast<TokenId>(id);
  }
  std::vector<TokenId> merged;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    if (!is_text(id)) continue;
    merged.clear();
    if (!vocabulary.whole_words) merge(pieces_[id], merged);
    // Most words are found here, without merging.
    if (vocabulary.whole_words || merged.size() == 1) {
      words_.emplace(pieces_[id], static_cast<TokenId>(id));
    }
  }
}

std::vector<RankedPiece> ByteLevelBpe::ranked_pieces() const {
  std::unordered_map<TokenId, std::uint32_t> ranks;
  for (const auto& [pair, merge] : merges_) {
    auto& rank = ranks.emplace(merge.id, merge.rank).first->second;
    rank = std::min(rank, merge.rank);
  }
  std::vector<RankedPiece> pieces;
  for (const auto& [bytes, id] : words_) {
    const auto rank = ranks.find(id);
    if (rank != ranks.end())
      pieces.push_back({.bytes = std::string(bytes), .id = id, .rank = rank->second});
    else if (bytes.size() == 1)
      pieces.push_back({.bytes = std::string(bytes), .id = id, .rank = 0});
  }
  return pieces;
}

std::string ByteLevelBpe::normalized(std::string_view text) const {
  return std::string(nfc_ ? NfcText(text).text() : text);
}

void ByteLevelBpe::encode(std::string_view text, std::vector<TokenId>& ids) const {
  if (!nfc_) return encode_normalized(text, ids);
  encode_normalized(NfcText(text).text(), ids);
}

void ByteLevelBpe::encode_normalized(std::string_view text, std::vector<TokenId>& ids) const {
  pre_tokenizer_.for_each_word(text, [&](std::string_view word) {
    const auto whole = words_.find(word);
    if (whole != words_.end()) {
      ids.push_back(whole->second);
    } else {
      merge(word, ids);
    }
  });
}

void ByteLevelBpe::encode_parts(std::string_view text, bool /*continued*/,
                                std::vector<TokenId>& ids, std::vector<std::string>& parts) const {
  const NfcText normal(nfc_ ? text : std::string_view());
  const auto first = ids.size();
  encode_normalized(nfc_ ? normal.text() : text, ids);
  std::size_t end = 0, original_end = 0;
  for (std::size_t i = first; i < ids.size(); ++i) {
    end += pieces_[ids[i]].size();
    const auto original = nfc_ ? normal.original_bytes(end) : end;
    parts.emplace_back(text.substr(original_end, original - original_end));
    original_end = original;
  }
}

std::string ByteLevelBpe::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const auto id : ids) {
    if (id < pieces_.size() && kinds_[id] == PieceKind::normal) bytes += pieces_[id];
  }
  return bytes;
}

// A priority queue instead of a search per merge: a word may be a megabyte of one letter.
void ByteLevelBpe::merge(std::string_view word, std::vector<TokenId>& ids) const {
  const auto size = static_cast<std::uint32_t>(word.size());
  std::vector<Node> nodes(size);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto add_candidate = [&](std::uint32_t left) {
    if (left >= size || nodes[left].next >= size) return;
    const auto left_id = nodes[left].id, right_id = nodes[nodes[left].next].id;
    const auto found = merges_.find(BpeVocabulary::pair(left_id, right_id));
    if (found != merges_.end()) candidates.push({found->second, left, left_id, right_id});
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    nodes[i] = {id_of_byte_[static_cast<unsigned char>(word[i])], i == 0 ? size : i - 1, i + 1};
  }
  for (std::uint32_t i = 0; i < size; ++i) add_candidate(i);
  while (!candidates.empty()) {
    const auto [merge, left, left_id, right_id] = candidates.top();
    candidates.pop();
    const auto right = nodes[left].next;
    if (right >= size || nodes[left].id != left_id || nodes[right].id != right_id) continue;
    nodes[left] = {merge.id, nodes[left].before, nodes[right].next};
    nodes[right].id = kRemoved;
    if (nodes[left].next < size) nodes[nodes[left].next].before = left;
    add_candidate(nodes[left].before);
    add_candidate(left);
  }
  for (std::uint32_t i = 0; i < size; i = nodes[i].next) {
    ids.push_back(nodes[i].id);
  }
}

}  // namespace tg
