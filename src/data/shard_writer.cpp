#include "data/shard_writer.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "data/shard.h"

namespace tg {
namespace {

constexpr std::size_t buffer_tokens = 1 << 18;

std::string temporary(const std::string& path) {
  return path + ".tmp";
}

}  // namespace

std::vector<std::string> find_shards(const std::string& dir, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(prefix + "_train_") || name.starts_with(prefix + "_val_");
    if (ours && name.ends_with(".bin")) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

ShardWriter::ShardWriter(std::string dir, std::string prefix, std::string split,
                         std::int64_t shard_tokens)
    : dir_(std::move(dir)),
      prefix_(std::move(prefix)),
      split_(std::move(split)),
      shard_tokens_(shard_tokens) {
  buffer_.reserve(buffer_tokens);
}

ShardWriter::~ShardWriter() {
  file_.reset();
  if (committed_) return;
  for (const std::string& path : paths_) std::remove(temporary(path).c_str());
}

void ShardWriter::open_next() {
  const std::string path = fmt::format("{}/{}_{}_{:06}.bin", dir_, prefix_, split_, paths_.size());
  file_.emplace(File::create(temporary(path)));
  paths_.push_back(path);
  // All zero until the token count is known; no reader takes that for a shard.
  const std::array<std::int32_t, shard_header_ints> header{};
  file_->write(std::as_bytes(std::span(header)));
  in_shard_ = 0;
}

void ShardWriter::append(std::span<const std::uint16_t> tokens) {
  while (!tokens.empty()) {
    if (!file_) open_next();
    const auto room = std::min<std::int64_t>(
        shard_tokens_ - in_shard_, static_cast<std::int64_t>(buffer_tokens - buffer_.size()));
    const auto part = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(room)));
    buffer_.insert(buffer_.end(), part.begin(), part.end());
    in_shard_ += std::ssize(part);
    tokens_ += std::ssize(part);
    tokens = tokens.subspan(part.size());
    if (in_shard_ == shard_tokens_) {
      complete();
    } else if (buffer_.size() == buffer_tokens) {
      flush();
    }
  }
}

void ShardWriter::flush() {
  file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void ShardWriter::complete() {
  flush();
  const std::array<std::int32_t, 3> header{shard_magic, shard_version,
                                           static_cast<std::int32_t>(in_shard_)};
  file_->write_at(0, std::as_bytes(std::span(header)));
  file_->sync();
  file_.reset();
}

void ShardWriter::finish() {
  if (file_) complete();
}

void ShardWriter::commit() {
  finish();
  for (const std::string& path : paths_) {
    REQUIRE(std::rename(temporary(path).c_str(), path.c_str()) == 0, ExitCode::cannot_create,
            "cannot create {} ({})", path, std::strerror(errno));
  }
  committed_ = true;
  sync_directory(dir_);
}

}  // namespace tg
