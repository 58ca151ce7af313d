#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "text/bpe_vocabulary.h"
#include "text/text_lines.h"

namespace tg {

// Throws Error(bad_data) that names the line.
[[noreturn]] void refuse_line(const std::string& path, const TextLine& line,
                              const std::string& expected);

// Adds pieces with consecutive ids, in the order of their merges.
class BpeBuilder {
 public:
  // `path`, for messages, must outlive the builder.
  explicit BpeBuilder(const std::string& path) : path_(path) {}

  // Returns the piece's id. Throws Error(bad_data) if it is there already or too long, and
  // Error(config) for more than kMaxPieces.
  TokenId add(const std::string& piece, std::int64_t line);
  // Adds a way to make the piece `id`. The id is the rank: merges that make the same piece have
  // equal rank.
  void add_merge(TokenId left, TokenId right, TokenId id);
  std::optional<TokenId> find(const std::string& piece) const;
  std::size_t size() const { return vocabulary_.pieces.size(); }
  const std::string& piece(std::size_t id) const { return vocabulary_.pieces[id]; }

  // Returns the vocabulary of these pieces, without special ones.
  BpeVocabulary finish() &&;

 private:
  const std::string& path_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, TokenId> ids_;
};

}  // namespace tg
