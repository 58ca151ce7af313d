#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/escaped.h"
#include "data/shard.h"
#include "data/shard_header.h"
#include "files/npy_header.h"

namespace tg {
namespace {

// Parses NumPy's name of an integer type, such as "<u2" or "|u1". Throws Error(bad_data).
IntegerType integer_type(const std::string& dtype, const std::string& path) {
  REQUIRE(!dtype.starts_with('>'), ExitCode::bad_data,
          "{} is big-endian (expected little-endian token ids, found '{}'); write it with "
          ".astype('<u2')",
          path, escaped(dtype, 40));
  for (const int bytes : {1, 2, 4, 8}) {
    for (const char kind : {'u', 'i'}) {
      if (dtype == fmt::format("{}{}{}", bytes == 1 ? '|' : '<', kind, bytes))
        return {.bytes = bytes, .is_signed = kind == 'i'};
    }
  }
  fail(ExitCode::bad_data,
       "{} holds no token ids (expected integers, found elements of dtype {}); write them with "
       ".astype('<u2')",
       path, dtype.empty() ? "of several fields" : "'" + escaped(dtype, 40) + "'");
}

std::string name_of(const IntegerType& type) {
  return fmt::format("{}int{}", type.is_signed ? "" : "u", 8 * type.bytes);
}

constexpr std::int64_t block_tokens = 1 << 20;

bool is_for_validation(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem();
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  for (auto begin = stem.begin(); begin != stem.end();) {
    begin = std::find_if(begin, stem.end(), is_letter);
    const auto end = std::find_if_not(begin, stem.end(), is_letter);
    const std::string word(begin, end);
    if (word == "val" || word == "valid" || word == "validation") return true;
    begin = end;
  }
  return false;
}

}  // namespace

TokenFile::TokenFile(const std::string& path, int limit, IntegerType raw)
    : file_(File::open(path)), limit_(limit), type_(raw) {
  const auto name = std::filesystem::path(path).filename().string();
  REQUIRE(!prefix_of_shard(name, kSidecarSplit), ExitCode::bad_data,
          "{}: a byte sidecar by its name (expected token ids, found bytes of text); leave it out",
          path);
  if (path.ends_with(".npy")) {
    open_npy();
  } else {
    REQUIRE(path.ends_with(".bin"), ExitCode::bad_data,
            "{}: no file of token ids by its name (expected .bin or .npy)", path);
    open_bin();
  }
  REQUIRE(tokens_ > 0, ExitCode::bad_data, "{} holds no tokens (expected at least 1)", path);
}

void TokenFile::open_npy() {
  const auto header = read_npy_header(file_);
  type_ = integer_type(header.dtype, path());
  REQUIRE(!header.fortran_order, ExitCode::bad_data,
          "{} is in Fortran order (expected an array of one dimension in C order); write it with "
          "numpy.ascontiguousarray and .reshape(-1)",
          path());
  REQUIRE(header.shape.size() == 1, ExitCode::bad_data,
          "{} is an array of {} dimensions (expected 1); write it with .reshape(-1)", path(),
          header.shape.size());
  begin_ = header.bytes;
  tokens_ = header.shape.front();
  const auto stored = file_.size() - begin_;
  REQUIRE(tokens_ <= stored / type_.bytes && tokens_ * type_.bytes == stored, ExitCode::bad_data,
          "{}: the size does not fit the .npy header (expected {} ids of {} bytes, found {} bytes "
          "after it); copy it again",
          path(), tokens_, type_.bytes, stored);
}

void TokenFile::open_bin() {
  REQUIRE(!begins_as_npy(file_), ExitCode::bad_data,
          "{} begins as a .npy file does (expected ids alone or a shard's header); rename "
          "it to .npy",
          path());
  if (begins_as_shard(file_)) {
    const auto header = read_shard_header(file_);
    type_ = {.bytes = header.token_bytes};
    begin_ = shard_header_bytes;
    tokens_ = header.tokens;
    return;
  }
  const auto bytes = file_.size();
  REQUIRE(bytes % type_.bytes == 0, ExitCode::bad_data,
          "{} is cut short or holds no {} ids (expected a multiple of {} bytes, found {})", path(),
          name_of(type_), type_.bytes, bytes);
  tokens_ = bytes / type_.bytes;
  constexpr std::int64_t kSample = 1 << 16;
  std::vector<std::byte> sample(static_cast<std::size_t>(std::min(kSample, file_.size())));
  sample.resize(static_cast<std::size_t>(file_.read_at(0, sample)));
  const auto wider = wider_ids(sample, type_.bytes);
  if (!wider) return;
  fail(ExitCode::bad_data,
       "{} holds no {} ids (expected ids in every {} bytes, found the halves of numbers of {}, of "
       "which the upper are zeros or nearly so); give --dtype {}, or a .npy file, which declares "
       "its type",
       path(), name_of(type_), type_.bytes, *wider, *wider == 8 ? "int64" : "uint32");
}

void TokenFile::read(std::int64_t first, std::span<TokenId> out) const {
  std::vector<std::byte> stored(out.size() * static_cast<std::size_t>(type_.bytes));
  const auto got = file_.read_at(begin_ + first * type_.bytes, stored);
  REQUIRE(got == std::ssize(stored), ExitCode::bad_data,
          "Short read for {}: expected {} bytes, found {}; it was cut while in use", path(),
          stored.size(), got);
  const auto bad = convert_ids(stored, type_, limit_, out);
  if (!bad) return;
  fail(ExitCode::bad_data,
       "token id out of range in {} at token {} (expected 0 to {}, found {}); {}", path(),
       first + bad->index, limit_ - 1, bad->value,
       limit_ == kNarrowIds ? "a larger vocabulary is stated by --vocab-size or --tokenizer, the "
                              "type of raw ids by --dtype"
                            : "they are of another vocabulary than the tokenizer or --vocab-size");
}

TokenFiles::TokenFiles(const TokenFilesOptions& options) : bos_id_(options.bos_id) {
  const bool named = std::ranges::any_of(options.paths, is_for_validation);
  for (const std::string& path : options.paths) {
    Part part{.file = TokenFile(path, options.limit, options.raw)};
    const auto tokens = part.file.tokens();
    if (named) {
      part.validation_from = is_for_validation(path) ? 0 : tokens;
    } else {
      const double val_tokens = options.val_fraction * static_cast<double>(tokens);
      part.validation_from = tokens - static_cast<std::int64_t>(val_tokens);
      part.at_document = bos_id_ >= 0;
    }
    parts_.push_back(std::move(part));
  }
}

std::optional<TokenFiles::Block> TokenFiles::next() {
  if (index_ == parts_.size()) return {};
  const auto& [file, validation_from, at_document] = parts_[index_];
  const bool before = position_ < validation_from;
  const auto end = before ? validation_from : file.tokens();
  block_.resize(static_cast<std::size_t>(std::min(block_tokens, end - position_)));
  file.read(position_, block_);
  if (!before && !validation_) {
    const auto document =
        at_document ? std::ranges::find(block_, static_cast<TokenId>(bos_id_)) : block_.begin();
    validation_ = document == block_.begin();
    if (!validation_) block_.erase(document, block_.end());
  }
  const Block block{.tokens = block_, .validation = validation_};
  position_ += std::ssize(block_);
  if (position_ == file.tokens()) {
    ++index_;
    position_ = 0;
    validation_ = false;
  }
  return block;
}

}  // namespace tg
