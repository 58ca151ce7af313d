#pragma once
// The tokens of several TokenFiles, dealt to the two splits.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.h"

namespace tg {

struct TokenFilesOptions {
  std::vector<std::string> paths;
  int limit = 1 << 16;  // ids are below it
  IntegerType raw;      // the type of ids in files that do not say it
  int bos_id = -1;      // begins every document; -1: unknown
  // Counts where no file is named for validation.
  double val_fraction = 0;
};

// A file with the word val, valid or validation in its name is for validation, any other for
// training: train.bin, edu_val_000000.npy. Where no name says so, of each file the last
// val_fraction is for validation, from the first document on that begins there.
class TokenFiles {
 public:
  // Opens all. Errors: those of TokenFile.
  explicit TokenFiles(const TokenFilesOptions& options);

  struct Block {
    std::span<const std::uint16_t> tokens;  // until the next call
    bool validation = false;
  };
  // The next tokens in order; empty after the last. Errors: those of TokenFile.
  std::optional<Block> next();

 private:
  struct Part {
    TokenFile file;
    std::int64_t validation_from = 0;  // position
    bool at_document = false;          // a document must begin there
  };

  const int bos_id_;
  std::vector<Part> parts_;
  std::size_t index_ = 0;             // of the current part
  std::int64_t position_ = 0;         // in it
  bool validation_ = false;           // of what comes
  std::vector<std::uint16_t> block_;  // the tokens returned last
};

}  // namespace tg
