#include "data/token_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace tg {
namespace {

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
