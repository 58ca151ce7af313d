#include "files/unpacked_file.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace tg {
namespace {

constexpr std::size_t kPart = 1 << 16;
constexpr std::int64_t kFreeBytes = 64 << 20, kMaxRatio = 500;
constexpr std::array kCompressions = {Compression::gzip, Compression::zstd, Compression::xz};
constexpr std::size_t kMagicBytes = 6;  // the longest magic number

// A stream of zstd may also be a skippable frame, with which pzstd begins.
bool begins(std::string_view head, Compression compression) {
  using namespace std::string_view_literals;
  const bool skippable =
      head.size() >= 4 && (head[0] & '\xf0') == '\x50' && head.substr(1, 3) == "\x2a\x4d\x18"sv;
  return head.starts_with(magic_of(compression)) || (compression == Compression::zstd && skippable);
}

std::optional<Compression> find(const auto& is_it) {
  const auto found = std::ranges::find_if(kCompressions, is_it);
  if (found == kCompressions.end()) return {};
  return *found;
}

}  // namespace

std::optional<Compression> compression_named(std::string_view path) {
  return find([&](Compression one) { return path.ends_with(suffix_of(one)); });
}

std::string_view without_compression(std::string_view path) {
  if (const auto compression = compression_named(path)) {
    path.remove_suffix(suffix_of(*compression).size());
  }
  return path;
}

UnpackedFile::UnpackedFile(const std::string& path)
    : file_(path == "-" ? File::standard_input() : File::open_stream(path)) {
  while (rest_.size() < kMagicBytes && fill()) {
  }
  compression_ = find([&](Compression one) { return begins(rest_, one); });
  if (!compression_) compression_ = compression_named(path);
}

std::size_t UnpackedFile::read(std::span<char> to) {
  if (!compression_) {
    if (rest_.empty()) {
      const auto got = file_.read_some(to);
      read_ += got;
      return static_cast<std::size_t>(got);
    }
    const auto count = rest_.copy(to.data(), to.size());  // left from the constructor
    rest_.remove_prefix(count);
    return count;
  }
  while (stream_ || begin_stream()) {
    const auto step = stream_->step(rest_, to);
    rest_.remove_prefix(step.taken);
    made_ += static_cast<std::int64_t>(step.made);
    if (!step.fault.empty()) refuse(step.fault);
    if (step.ended) stream_.reset();
    const auto taken = read_ - std::ssize(rest_);
    REQUIRE(made_ <= kFreeBytes + kMaxRatio * taken, ExitCode::bad_data,
            "{} unpacks to more than {} times its size at byte {} (found {} bytes); if that is "
            "intended, unpack it to a file and pass that file",
            path(), kMaxRatio, taken, made_);
    if (step.made > 0) return step.made;
    if (step.taken == 0 && !step.ended && !fill()) refuse("it is cut short");
  }
  return 0;
}

// Keeps the unconsumed bytes: a stream's header may be split between two reads.
bool UnpackedFile::fill() {
  buffer_.erase(0, buffer_.size() - rest_.size());
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kPart);
  const auto got = file_.read_some(std::span(buffer_).subspan(before));
  buffer_.resize(before + static_cast<std::size_t>(got));
  rest_ = buffer_;
  read_ += got;
  return got > 0;
}

// Returns false at the end of the file after a complete stream, possibly followed by zero padding.
bool UnpackedFile::begin_stream() {
  while (true) {
    if (has_stream_) rest_.remove_prefix(std::min(rest_.find_first_not_of('\0'), rest_.size()));
    if (rest_.size() >= kMagicBytes) break;
    if (fill()) continue;
    if (!rest_.empty()) break;
    if (!has_stream_) refuse("it is empty");
    return false;
  }
  const bool otherwise = !begins(rest_, *compression_);
  const bool is_magic_cut_short = magic_of(*compression_).starts_with(rest_);
  if (otherwise && !has_stream_ && !is_magic_cut_short) refuse_text();
  if (otherwise && rest_.size() >= kMagicBytes) refuse("it begins otherwise");
  has_stream_ = true;
  stream_ = make_decompressor(*compression_);
  return true;
}

// Throws if the file is text although its name says that it is compressed. The buffer may end
// inside a character.
void UnpackedFile::refuse_text() const {
  constexpr std::size_t kLongestCharacter = 4;
  const bool is_text =
      valid_utf8_prefix(rest_) + kLongestCharacter > rest_.size() && !has_control_characters(rest_);
  REQUIRE(!is_text, ExitCode::bad_data,
          "{} is text that is not packed (expected {} data by its name); rename it to {}", path(),
          suffix_of(*compression_), without_compression(path()));
}

void UnpackedFile::refuse(std::string_view why) const {
  fail(ExitCode::bad_data,
       "{}: expected {} data at byte {} of the file, found that {}; copy it again", path(),
       suffix_of(*compression_), read_ - std::ssize(rest_), why);
}

}  // namespace tg
