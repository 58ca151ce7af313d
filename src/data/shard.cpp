#include "data/shard.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "data/token_ids.h"
#include "files/file_digest.h"
#include "files/folder.h"

namespace tg {
namespace {

// Maximum number of open shards; others are reopened when they are read.
constexpr std::size_t max_open_files = 16;
// A few micro-batches: enough to hide the latency of a disk or a network.
constexpr std::int64_t read_ahead_bytes = 4 << 20;
// Advice for a mistyped path and for a first run without data.
constexpr const char* get_shards =
    "for a first run use scripts/quickstart.sh, for FineWeb data/download_fineweb.py, or set "
    "DATA_PATH (--data-path) to shards, text or synthetic:zipf";

std::vector<std::string> list_files(const std::string& dir, std::string_view prefix,
                                    std::string_view split, const std::string& pattern) {
  std::error_code error;
  const auto all = names_in(dir.empty() ? "." : dir, error);
  REQUIRE(!error, ExitCode::missing_input, "No files found for pattern: {} ({}); {}", pattern,
          error.message(), get_shards);
  std::vector<std::string> names;
  std::string other;  // the first prefix of shards with another prefix
  for (const auto& name : all) {
    if (is_shard_name(name, prefix, split)) {
      names.push_back(name);
    } else if (const auto found = prefix_of_shard(name, split)) {
      other = other.empty() ? *found : std::min(other, *found);
    }
  }
  REQUIRE(!names.empty() || other.empty(), ExitCode::missing_input,
          "No files found for pattern: {}; the folder's shards are {}_{}_*.bin: set "
          "SHARD_PREFIX={}",
          pattern, other, split, other);
  REQUIRE(!names.empty(), ExitCode::missing_input, "No files found for pattern: {}; {}", pattern,
          get_shards);
  return names;
}

// Throws Error(bad_data) if a shard changed during a run, whose tokens would otherwise change
// unnoticed.
void check_unchanged(const File& file, const File::Version& before) {
  const auto now = file.version();
  REQUIRE(
      now.size == before.size, ExitCode::bad_data,
      "Shard size mismatch for {}: expected {} bytes, found {}; it was cut or replaced while in "
      "use",
      file.path(), before.size, now.size);
  REQUIRE(
      now == before, ExitCode::bad_data,
      "{} was replaced or written to while in use; start again with shards that stay as they are",
      file.path());
}

}  // namespace

bool is_shard_name(std::string_view name, std::string_view prefix, std::string_view split) {
  const auto begin = fmt::format("{}_{}", prefix, split);
  if (!name.starts_with(begin) || !name.ends_with(".bin")) return false;
  const auto rest = name.substr(begin.size());
  return rest.starts_with('_') && rest.find("_bytes_") == std::string_view::npos;
}

std::optional<std::string> prefix_of_shard(const std::string& name, std::string_view split) {
  const auto at = name.rfind(fmt::format("_{}_", split));
  if (at == std::string::npos) return {};
  auto prefix = name.substr(0, at);
  return is_shard_name(name, prefix, split) ? std::optional(std::move(prefix)) : std::nullopt;
}

ShardSet::ShardSet(const std::string& dir, std::string_view split, int vocab_size,
                   std::string_view prefix)
    : vocab_size_(vocab_size) {
  const std::string folder = dir.empty() || dir.ends_with('/') ? dir : dir + "/";
  pattern_ = fmt::format("{}{}_{}_*.bin", folder, prefix, split);
  starts_.push_back(0);
  for (const std::string& name : list_files(dir, prefix, split, pattern_)) {
    const File file = File::open(folder + name);
    const auto header = read_shard_header(file);
    starts_.push_back(starts_.back() + header.tokens);
    files_.push_back({file.path(), file.version(), header.token_bytes});
  }
}

std::string ShardSet::identity() const {
  SampledDigest digest;
  // Bypasses open(), which caches open files and would miss shards that were deleted or replaced.
  for (const auto& [path, version, token_bytes] : files_) {
    const File file = File::open(path);
    check_unchanged(file, version);
    digest.add(file);
  }
  return fmt::format("{} shards, {} tokens, digest {}", count(), total_tokens(), digest.text());
}

std::int64_t ShardSet::tokens(int shard) const {
  const auto index = static_cast<std::size_t>(shard);
  return starts_[index + 1] - starts_[index];
}

std::shared_ptr<const File> ShardSet::open(int shard) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(open_, shard, [](const auto& entry) { return entry.first; });
  if (found != open_.end()) return found->second;
  auto file = std::make_shared<const File>(File::open(shard_file(shard).path));
  check_unchanged(*file, shard_file(shard).version);
  open_.emplace_front(shard, file);
  // Reads in progress share ownership of a file that is evicted here.
  if (open_.size() > max_open_files) open_.pop_back();
  return file;
}

// The kernel's own read-ahead is smaller than a micro-batch and never reaches the next shard. After
// a read of bytes [begin, end) that enters a new block of read_ahead_bytes, prefetches the next
// block.
void ShardSet::read_ahead(int shard, const File& file, std::int64_t begin, std::int64_t end) const {
  if (begin / read_ahead_bytes == end / read_ahead_bytes && begin > shard_header_bytes) return;
  const std::int64_t next = (end / read_ahead_bytes + 1) * read_ahead_bytes;
  if (next < shard_file(shard).version.size) return file.prefetch(next, read_ahead_bytes);
  if (count() == 1) return;
  try {
    open(shard + 1 == count() ? 0 : shard + 1)->prefetch(0, read_ahead_bytes);
  } catch (const Error&) {
    // The read of that shard will report the error.
  }
}

// Reads tokens [offset, offset + out.size()) of one shard; the range must be inside it.
template <class Id>
void ShardSet::read(int shard, std::int64_t offset, std::span<Id> out) const {
  assert(shard >= 0 && shard < count());
  assert(offset >= 0 && offset + std::ssize(out) <= tokens(shard));
  const auto file = open(shard);
  check_unchanged(*file, shard_file(shard).version);
  const int token_bytes = shard_file(shard).token_bytes;
  const std::int64_t wanted = token_bytes * std::ssize(out);
  const std::int64_t position = shard_header_bytes + token_bytes * offset;
  const bool converts = token_bytes != sizeof(Id);
  std::vector<std::byte> other(converts ? static_cast<std::size_t>(wanted) : 0);
  const auto stored =
      converts ? std::span(other) : std::span<std::byte>(std::as_writable_bytes(out));
  const std::int64_t got = file->read_at(position, stored);
  REQUIRE(got == wanted, ExitCode::bad_data,
          "Short read for {}: expected {} bytes at byte {}, found {}; it was cut while in use",
          path(shard), wanted, position, got);
  read_ahead(shard, *file, position, position + wanted);
  const auto bad = convert_ids(stored, {.bytes = token_bytes}, pieces_, out);
  if (!bad) return;
  const auto refuse = [&](const std::string& expected, const char* why) {
    fail(ExitCode::bad_data,
         "token id out of range in {} at token {} (expected below {}, found {}); {}", path(shard),
         offset + bad->index, expected, bad->value, why);
  };
  if (std::stoll(bad->value) >= vocab_size_) {
    refuse(fmt::format("vocab_size={}", vocab_size_),
           "the shards and VOCAB_SIZE do not belong together");
  }
  refuse(fmt::format("{}, the tokenizer's pieces", pieces_),
         "the shards are another tokenizer's, or TOKENIZER_PATH is cut short");
}

void ShardSet::read_at(std::int64_t offset, const MutableIds& out) const {
  assert(offset >= 0);
  const auto read_stream = [&](auto ids) {
    std::int64_t position = offset % total_tokens();
    auto shard =
        static_cast<int>(std::ranges::upper_bound(starts_, position) - starts_.begin()) - 1;
    while (!ids.empty()) {
      const std::int64_t within = position - start(shard);
      const auto part =
          static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(ids), tokens(shard) - within));
      read(shard, within, ids.first(part));
      ids = ids.subspan(part);
      shard = shard + 1 == count() ? 0 : shard + 1;
      position = start(shard);
    }
  };
  std::visit(read_stream, out);
}

}  // namespace tg
