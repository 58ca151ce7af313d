#pragma once
// File of token ids from another program, recognized by its name and first bytes:
//   NAME.npy  NumPy's array of integers, one-dimensional
//   NAME.bin  a shard with its header (data/shard_header.h), else raw ids: uint16 as nanoGPT's,
//             or of another specified type
#include <cstdint>
#include <span>
#include <string>

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
  void require_own_width() const;

  File file_;
  int limit_;
  IntegerType type_;
  std::int64_t begin_ = 0;  // offset of the first id
  std::int64_t tokens_ = 0;
};

}  // namespace tg
