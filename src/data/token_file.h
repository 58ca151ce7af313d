#pragma once
// File of token ids from another program, recognized by its name and first bytes:
//   NAME.npy  NumPy's array of integers, one-dimensional
//   NAME.bin  a shard with its header (data/shard_header.h), else raw ids: uint16 as nanoGPT's,
//             or of another specified type
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_ids.h"
#include "files/file.h"

namespace tg {

class TokenFile {
 public:
  // `limit`: upper bound of ids (exclusive). `raw`: the type of raw ids. Throws
  // Error(missing_input) if there is no such regular file; Error(bad_data) for a name of another
  // kind or of a byte sidecar, an invalid or unsupported header, such as one of big-endian numbers,
  // a size that differs from the header's, raw ids whose pattern shows that they are wider, or no
  // tokens; Error(io).
  TokenFile(const std::string& path, int limit, IntegerType raw = {});

  const std::string& path() const { return file_.path(); }
  std::int64_t tokens() const { return tokens_; }
  // Reads tokens [first, first + out.size()), which must exist. Throws Error(bad_data) for an id
  // outside [0, limit) or if the file was truncated in the meantime, and Error(io).
  void read(std::int64_t first, std::span<TokenId> out) const;

 private:
  void open_npy();
  void open_bin();

  File file_;
  int limit_;
  IntegerType type_;
  std::int64_t begin_ = 0;  // offset of the first id
  std::int64_t tokens_ = 0;
};

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
