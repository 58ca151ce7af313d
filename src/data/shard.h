#pragma once
// A ShardSet is all shards (data/shard_header.h) of one split in the order of their names, and the
// endless stream of their tokens.
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/shard_header.h"
#include "data/token_source.h"
#include "files/file.h"

namespace tg {

// Names a byte sidecar's files, PREFIX_val_bytes_*.bin (data/text_bytes.h), as a split's.
inline constexpr std::string_view kSidecarSplit = "val_bytes";

// Whether a file's name is PREFIX_SPLIT_*.bin, and not PREFIX_SPLIT*_bytes_*.bin.
bool is_shard_name(std::string_view name, std::string_view prefix, std::string_view split);
// The PREFIX of such a name; empty: it is none.
std::optional<std::string> prefix_of_shard(const std::string& name, std::string_view split);

// Every read asks the kernel to read ahead in its shard and, near the end, in the next one.
class ShardSet final : public TokenSource {
 public:
  // Opens DIR/PREFIX_SPLIT_*.bin and checks every header and file size; token ids are checked as
  // they are read. Errors: missing_input (no such file), bad_data (header, size, no tokens).
  ShardSet(const std::string& dir, std::string_view split, int vocab_size,
           std::string_view prefix = "fineweb");
  // Before the first read: ids are of a tokenizer with so many pieces, at most vocab_size.
  void set_pieces(int pieces) { pieces_ = pieces; }

  const std::string& pattern() const override { return pattern_; }
  std::string identity() const override;
  int count() const override { return static_cast<int>(files_.size()); }
  std::string path(int shard) const override { return shard_file(shard).path; }
  std::int64_t tokens(int shard) const override;
  std::int64_t start(int shard) const override { return starts_[static_cast<std::size_t>(shard)]; }
  std::int64_t total_tokens() const { return starts_.back(); }
  std::int64_t tokens_up_to(std::int64_t limit) const override;

  // Tokens [offset, offset + out.size()) of one shard; the range must be inside it.
  // Errors: bad_data (file cut short or replaced meanwhile, an id that is no piece), io.
  void read(int shard, std::int64_t offset, std::span<std::uint16_t> out) const;
  // The same for the stream of all shards.
  void read_at(std::int64_t offset, std::span<std::uint16_t> out) const override;

 private:
  struct ShardFile {
    std::string path;
    File::Version version;  // when its header was checked
    int token_bytes = 2;
  };

  const ShardFile& shard_file(int shard) const { return files_[static_cast<std::size_t>(shard)]; }
  std::shared_ptr<const File> open(int shard) const;
  void read_ahead(int shard, const File& file, std::int64_t begin, std::int64_t end) const;

  std::string pattern_;
  std::vector<ShardFile> files_;
  std::vector<std::int64_t>
      starts_;  // [count + 1] position of each shard's first token, and all tokens
  int vocab_size_;
  int pieces_ = vocab_size_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<int, std::shared_ptr<const File>>> open_;  // newest first
};

}  // namespace tg
