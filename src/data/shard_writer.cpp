#include "data/shard_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "data/shard.h"
#include "files/folder.h"

namespace tg {
namespace {

constexpr std::size_t kBufferBytes = 1 << 19;

}  // namespace

std::vector<std::string> find_shards(const std::string& dir, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& name : names_in(dir, ignored)) {
    const auto belongs_to = [&](std::string_view split) {
      return is_shard_name(name, prefix, split);
    };
    if (belongs_to("train") || belongs_to("val") || belongs_to(kSidecarSplit))
      found.push_back(std::filesystem::path(dir) / name);
  }
  return found;
}

ShardWriter::ShardWriter(std::string dir, std::string prefix, std::string split,
                         std::int64_t shard_tokens, int token_bytes)
    : dir_(std::move(dir)),
      prefix_(std::move(prefix)),
      split_(std::move(split)),
      shard_tokens_(shard_tokens),
      token_bytes_(token_bytes) {
  buffer_.reserve(kBufferBytes);
}

void ShardWriter::open_next() {
  paths_.push_back(fmt::format("{}/{}_{}_{:06}.bin", dir_, prefix_, split_, paths_.size()));
  files_.emplace_back(paths_.back(), paths_.back() + ".tmp");
  REQUIRE(last().create(), ExitCode::cannot_create, "cannot create {} ({})", last().temporary(),
          std::strerror(errno));
  // Zeros until the token count is known; no reader accepts them as a shard.
  const std::array<std::int32_t, shard_header_ints> header{};
  require_written(last().write(header.data(), sizeof header));
  in_shard_ = 0;
}

void ShardWriter::require_written(bool done) {
  REQUIRE(done, ExitCode::io, "writing {} failed ({})", last().temporary(), std::strerror(errno));
}

void ShardWriter::append(std::span<const std::byte> tokens) {
  const auto shard_bytes = shard_tokens_ * token_bytes_;
  while (!tokens.empty()) {
    if (!is_open()) open_next();
    const auto room = std::min<std::int64_t>(
        shard_bytes - in_shard_, static_cast<std::int64_t>(kBufferBytes - buffer_.size()));
    const auto part = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(room)));
    buffer_.insert(buffer_.end(), part.begin(), part.end());
    in_shard_ += std::ssize(part);
    tokens = tokens.subspan(part.size());
    if (in_shard_ == shard_bytes) {
      complete();
    } else if (buffer_.size() == kBufferBytes) {
      flush();
    }
  }
}

void ShardWriter::flush() {
  require_written(last().write(buffer_.data(), buffer_.size()));
  buffer_.clear();
}

void ShardWriter::complete() {
  flush();
  const auto header = shard_header_of(in_shard_ / token_bytes_, token_bytes_);
  require_written(last().write_at(0, header.data(), sizeof header) && last().sync() &&
                  last().close());
}

void ShardWriter::commit() {
  finish();
  for (FileWriter& file : files_) {
    REQUIRE(file.rename(), ExitCode::cannot_create, "cannot create {} ({})", file.path(),
            std::strerror(errno));
  }
  sync_folder(dir_);
}

}  // namespace tg
