#pragma once
// A file of token ids that other programs made, by its name and first bytes:
//   NAME.npy  NumPy's array of integers, of one dimension
//   NAME.bin  a shard with its header (data/shard_header.h), else raw ids, uint16 as nanoGPT's or
//   of
//             another stated type
#include <cstdint>
#include <span>
#include <string>

#include "data/token_ids.h"
#include "files/file.h"

namespace tg {

class TokenFile {
 public:
  // limit: ids are below it, at most 65,536. raw: the type of raw ids. Errors: missing_input (not
  // there, no regular file); bad_data (another name, a byte sidecar's; a header that is damaged or
  // says what this does not read, such as big-endian numbers; another size than it says; raw ids
  // that the pattern shows to be wider; no tokens); io.
  TokenFile(const std::string& path, int limit, IntegerType raw = {});

  const std::string& path() const { return file_.path(); }
  std::int64_t tokens() const { return tokens_; }
  // Tokens [first, first + out.size()), which must exist. Errors: bad_data (an id that is not in
  // [0, limit); cut short meanwhile), io.
  void read(std::int64_t first, std::span<std::uint16_t> out) const;

 private:
  void open_npy();
  void open_bin();
  void require_own_width() const;

  File file_;
  int limit_;
  IntegerType type_;
  std::int64_t begin_ = 0;  // byte of the first id
  std::int64_t tokens_ = 0;
};

}  // namespace tg
