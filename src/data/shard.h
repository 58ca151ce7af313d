#pragma once
// A ShardSet is all shards (data/shard_header.h) of one split in the order of their names, read as
// the endless stream of their tokens.
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

// Split name of a byte sidecar's files, PREFIX_val_bytes_*.bin (data/text_bytes.h).
inline constexpr std::string_view kSidecarSplit = "val_bytes";

// Returns whether a file's name is PREFIX_SPLIT_*.bin, and not PREFIX_SPLIT*_bytes_*.bin.
bool is_shard_name(std::string_view name, std::string_view prefix, std::string_view split);
// Returns the PREFIX of such a name; nullopt for other names.
std::optional<std::string> prefix_of_shard(const std::string& name, std::string_view split);

// Each read asks the kernel to prefetch in its shard and, near the end, in the next one.
class ShardSet final : public TokenSource {
 public:
  // Opens DIR/PREFIX_SPLIT_*.bin and checks every header and file size; token ids are checked when
  // they are read. Throws Error(missing_input) if there is no such file, and Error(bad_data) for an
  // invalid header or size or a shard without tokens.
  ShardSet(const std::string& dir, std::string_view split, int vocab_size,
           std::string_view prefix = "fineweb");
  // Sets the tokenizer's number of pieces, at most vocab_size; call before the first read.
  void set_pieces(int pieces) { pieces_ = pieces; }

  const std::string& pattern() const override { return pattern_; }
  std::string identity() const override;
  int count() const override { return static_cast<int>(files_.size()); }
  std::string path(int shard) const override { return shard_file(shard).path; }
  std::int64_t tokens(int shard) const override;
  std::int64_t start(int shard) const override { return starts_[static_cast<std::size_t>(shard)]; }
  std::int64_t total_tokens() const { return starts_.back(); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return std::min(limit, total_tokens());
  }

  int id_bytes() const override { return id_bytes_below(pieces_); }
  // Reads from the stream of all shards. Throws Error(bad_data) if a file was truncated or replaced
  // in the meantime or an id is no piece, and Error(io).
  void read_at(std::int64_t offset, const MutableIds& out) const override;

 private:
  struct ShardFile {
    std::string path;
    File::Version version;  // at the time of the header check
    int token_bytes = 2;
  };

  const ShardFile& shard_file(int shard) const { return files_[static_cast<std::size_t>(shard)]; }
  std::shared_ptr<const File> open(int shard) const;
  template <class Id>
  void read(int shard, std::int64_t offset, std::span<Id> out) const;
  void read_ahead(int shard, const File& file, std::int64_t begin, std::int64_t end) const;

  std::string pattern_;
  std::vector<ShardFile> files_;
  // [count + 1]: position of each shard's first token, and the total
  std::vector<std::int64_t> starts_;
  int vocab_size_;
  int pieces_ = vocab_size_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<int, std::shared_ptr<const File>>> open_;  // newest first
};

}  // namespace tg
