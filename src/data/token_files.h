#pragma once
// Tokens of several TokenFiles, assigned to the two splits.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace tg {

struct TokenFilesOptions {
  std::vector<std::string> paths;
  int limit = kNarrowIds;  // exclusive upper bound of ids
  IntegerType raw;         // for files that do not declare the type of their ids
  int bos_id = -1;         // begins every document; -1: unknown
  // Used if no file is named for validation.
  double val_fraction = 0;
};

// Assigns files to splits: a file with the word val, valid or validation in its name is for
// validation, any other for training: train.bin, edu_val_000000.npy. If no name has such a word,
// the last val_fraction of each file is for validation, from the first document on that begins
// there.
class TokenFiles {
 public:
  // Opens all files. Throws what TokenFile throws.
  explicit TokenFiles(const TokenFilesOptions& options);

  struct Block {
    std::span<const TokenId> tokens;  // valid until the next call
    bool validation = false;
  };
  // Returns the next tokens in order; nullopt after the last. Throws what TokenFile throws.
  std::optional<Block> next();

 private:
  struct Part {
    TokenFile file;
    std::int64_t validation_from = 0;  // position of the first validation token
    bool at_document = false;          // move validation_from to the next BOS
  };

  const int bos_id_;
  std::vector<Part> parts_;
  std::size_t index_ = 0;       // current part
  std::int64_t position_ = 0;   // in the current part
  bool validation_ = false;     // split of the next tokens
  std::vector<TokenId> block_;  // the last returned tokens
};

}  // namespace tg
