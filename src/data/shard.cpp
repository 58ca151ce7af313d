#include "data/shard.h"

#include <dirent.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "data/sampled_digest.h"

namespace tg {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

// The most shards that are open at once; others are reopened when they are read.
constexpr std::size_t max_open_files = 16;
// A few micro-batches: enough to hide the latency of a disk or a network.
constexpr std::int64_t read_ahead_bytes = 4 << 20;
// Advice for a mistyped path as well as for a first run without data.
constexpr const char* get_shards =
    "for a first run use scripts/quickstart.sh, for FineWeb data/download_fineweb.py, or set "
    "DATA_PATH (--data-path) to shards, text or synthetic:zipf";

std::vector<std::string> list_files(const std::string& dir, const std::string& name_pattern,
                                    const std::string& pattern) {
  DIR* listing = ::opendir(dir.empty() ? "." : dir.c_str());
  REQUIRE(listing != nullptr, ExitCode::missing_input, "No files found for pattern: {} ({}); {}",
          pattern, std::strerror(errno), get_shards);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    if (::fnmatch(name_pattern.c_str(), entry->d_name, 0) == 0) names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  REQUIRE(!names.empty(), ExitCode::missing_input, "No files found for pattern: {}; {}", pattern,
          get_shards);
  std::sort(names.begin(), names.end());
  return names;
}

// Checks header and size; returns the number of tokens.
std::int64_t check_header(const File& file) {
  const std::string& path = file.path();
  std::array<std::int32_t, shard_header_ints> header{};
  const std::int64_t got = file.read_at(0, std::as_writable_bytes(std::span(header)));
  REQUIRE(got == shard_header_bytes, ExitCode::bad_data,
          "Unexpected shard header for {}: expected {} bytes, found {}; the file is cut short",
          path, shard_header_bytes, got);
  const auto [magic, version, tokens] = std::array{header[0], header[1], header[2]};
  if (magic != shard_magic || version != shard_version) {
    const bool swapped = magic == static_cast<std::int32_t>(__builtin_bswap32(shard_magic));
    fail(ExitCode::bad_data, "Unexpected shard header for {}: expected {} {}, found {} {}; {}",
         path, shard_magic, shard_version, magic, version,
         swapped ? "the byte order is reversed: shards are little-endian"
                 : "not a token shard of this format");
  }
  REQUIRE(tokens > 0, ExitCode::bad_data,
          "Unexpected shard header for {}: expected at least 1 token, found {}", path, tokens);
  const std::int64_t expected = shard_header_bytes + 2 * std::int64_t{tokens};
  const std::int64_t size = file.size();
  REQUIRE(size == expected, ExitCode::bad_data,
          "Shard size mismatch for {}: expected {} bytes, found {}; copy or download it again",
          path, expected, size);
  return tokens;
}

// Errors: bad_data. Tokens of a shard that changes during a run would change unnoticed.
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

ShardSet::ShardSet(const std::string& dir, std::string_view split, int vocab_size)
    : vocab_size_(vocab_size) {
  const std::string name_pattern = fmt::format("fineweb_{}_*.bin", split);
  const std::string prefix = dir.empty() || dir.ends_with('/') ? dir : dir + "/";
  pattern_ = prefix + name_pattern;
  starts_.push_back(0);
  for (const std::string& name : list_files(dir, name_pattern, pattern_)) {
    const File file = File::open(prefix + name);
    starts_.push_back(starts_.back() + check_header(file));
    files_.push_back({file.path(), file.version()});
  }
}

std::string ShardSet::identity() const {
  SampledDigest digest;
  // Not by open(), which keeps files open: what is deleted or replaced later would not be noticed.
  for (const auto& [path, version] : files_) {
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

std::int64_t ShardSet::tokens_up_to(std::int64_t limit) const {
  return std::min(limit, total_tokens());
}

std::shared_ptr<const File> ShardSet::open(int shard) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& entry) { return entry.first == shard; });
  if (found != open_.end()) return found->second;
  auto file = std::make_shared<const File>(File::open(shard_file(shard).path));
  check_unchanged(*file, shard_file(shard).version);
  open_.emplace_front(shard, file);
  // Reads in progress share ownership of a file that is dropped here.
  if (open_.size() > max_open_files) open_.pop_back();
  return file;
}

// The kernel's own read-ahead is less than a micro-batch and never reaches the next shard. After a
// read of bytes [begin, end) that enters a new block of read_ahead_bytes, prefetches the next
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

void ShardSet::read(int shard, std::int64_t offset, std::span<std::uint16_t> out) const {
  assert(shard >= 0 && shard < count());
  assert(offset >= 0 && offset + std::ssize(out) <= tokens(shard));
  const auto file = open(shard);
  check_unchanged(*file, shard_file(shard).version);
  const std::int64_t wanted = 2 * std::ssize(out);
  const std::int64_t position = shard_header_bytes + 2 * offset;
  const std::int64_t got = file->read_at(position, std::as_writable_bytes(out));
  REQUIRE(got == wanted, ExitCode::bad_data,
          "Short read for {}: expected {} bytes at byte {}, found {}; it was cut while in use",
          path(shard), wanted, position, got);
  read_ahead(shard, *file, position, position + wanted);
  // The maximum vectorises; the bad id is searched only if there is one.
  std::uint16_t largest = 0;
  for (const std::uint16_t id : out) largest = std::max(largest, id);
  if (largest < pieces_) return;
  const auto bad = std::ranges::find_if(out, [&](std::uint16_t id) { return id >= pieces_; });
  const auto refuse = [&](const std::string& expected, const char* why) {
    fail(ExitCode::bad_data,
         "token id out of range in {} at token {} (expected below {}, found {}); {}", path(shard),
         offset + (bad - out.begin()), expected, *bad, why);
  };
  if (*bad >= vocab_size_) {
    refuse(fmt::format("vocab_size={}", vocab_size_),
           "the shards and VOCAB_SIZE do not belong together");
  }
  refuse(fmt::format("{}, the tokenizer's pieces", pieces_),
         "the shards are another tokenizer's, or TOKENIZER_PATH is cut short");
}

void ShardSet::read_at(std::int64_t offset, std::span<std::uint16_t> out) const {
  assert(offset >= 0);
  std::int64_t position = offset % total_tokens();
  auto shard = static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), position) -
                                starts_.begin()) -
               1;
  while (!out.empty()) {
    const std::int64_t within = position - start(shard);
    const auto part =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), tokens(shard) - within));
    read(shard, within, out.first(part));
    out = out.subspan(part);
    shard = shard + 1 == count() ? 0 : shard + 1;
    position = start(shard);
  }
}

}  // namespace tg
