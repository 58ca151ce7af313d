#include "data/splits.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/shard.h"
#include "data/synthetic_tokens.h"
#include "files/folder.h"
#include "text/raw_documents.h"
#include "text/text_files.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view synthetic_prefix = "synthetic:";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_shards(const std::string& folder) {
  std::error_code ignored;
  // Counts shards with another prefix too: ShardSet reports the mismatch.
  return std::ranges::any_of(names_in(folder, ignored), [](const std::string& name) {
    return prefix_of_shard(name, "train") || prefix_of_shard(name, "val");
  });
}

// Rejects a file that is not named like a text file.
[[noreturn]] void refuse_file(const std::string& path, const std::string& text_key) {
  RawDocuments(path, Separator::file, text_key);  // throws for known formats
  fail(ExitCode::bad_data,
       "DATA_PATH={} is no text by its name (expected a folder of shards or of text, or a file "
       ".txt, .jsonl, .json, also .gz, .zst or .xz, or .parquet)",
       path);
}

// Returns the files that a pattern of the shell, such as "data/0*.parquet", names, sorted bytewise;
// empty if there are none.
std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::ranges::sort(files);
  return files;
}

// Returns the text files that DATA_PATH names, in order; empty if it is no text or cannot be
// listed: ShardSet then reports the error.
std::vector<std::string> text_files(const DataConfig& data) {
  const std::string& path = data.data_path;
  if (!is_folder(path)) {
    std::error_code ignored;
    const bool is_file = fs::is_regular_file(path, ignored);
    const bool is_pattern = !is_file && path.find_first_of("*?[") != std::string::npos;
    if (is_readable_named(path) && !is_pattern) return {path};
    if (is_file) refuse_file(path, data.text_key);
    if (!is_pattern) return {};
    auto files = matching_files(path);
    std::erase_if(files, [&](const auto& file) { return !fs::is_regular_file(file, ignored); });
    for (const auto& file : files)
      if (!is_readable_named(file)) refuse_file(file, data.text_key);
    return files;
  }
  if (has_shards(path)) return {};
  auto texts = find_texts(path);
  if (texts.files.empty()) {
    // An error about data of another format says more than an error about missing shards.
    for (const auto& file : texts.other_files) {
      std::error_code ignored;
      if (fs::is_regular_file(file, ignored)) RawDocuments(file, Separator::file, data.text_key);
    }
  }
  log_left_out(path, texts);
  return std::move(texts.files);
}

// Rejects pipes: every rank reads the files itself, and would read different bytes of a pipe.
void require_regular(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  REQUIRE(fs::exists(status), ExitCode::missing_input,
          "cannot open {} ({}); DATA_PATH names a text file that must be there", path,
          error ? error.message() : "No such file or directory");
  REQUIRE(fs::is_regular_file(status), ExitCode::missing_input,
          "cannot open {} (expected a regular file, found a pipe or device); write the text to a "
          "file or let make_shards read it",
          path);
}

TokenSplits synthetic_splits(const DataConfig& data, int vocab_size) {
  const bool documents = data.data_path == synthetic_documents;
  REQUIRE(documents || data.data_path == synthetic_zipf, ExitCode::usage,
          "DATA_PATH: no such synthetic data (expected {} or {}, found {})", synthetic_zipf,
          synthetic_documents, data.data_path);
  auto vocabulary = read_vocabulary(data, vocab_size);
  const auto seed = static_cast<std::uint64_t>(data.seed);
  const auto split = [&](std::string_view name) -> std::shared_ptr<const TokenSource> {
    if (documents) {
      return std::make_shared<SyntheticDocuments>(name, vocabulary.pieces, seed, vocabulary.bos_id);
    }
    return std::make_shared<SyntheticTokens>(name, vocabulary.pieces, seed);
  };
  return {split("train"), split("val"), std::move(vocabulary)};
}

TokenSplits text_splits(const DataConfig& data, std::vector<std::string> files, int vocab_size,
                        const TokenizationOptions& making, WantedSplits wanted) {
  for (const std::string& file : files) require_regular(file);
  REQUIRE(!data.tokenizer_path.empty(), ExitCode::config,
          "DATA_PATH={} is text, which needs a tokenizer (expected the path of one, found an "
          "empty TOKENIZER_PATH); set TOKENIZER_PATH, or give shards",
          data.data_path);
  auto vocabulary = read_vocabulary(data, vocab_size);
  const TextCorpus corpus(std::move(files), make_tokenizer(data, vocab_size), making.threads,
                          data.text_key, making.once_per_host, wanted);
  return {corpus.train(), corpus.val(), std::move(vocabulary)};
}

// Opens everything but folders of shards.
std::optional<TokenSplits> open_other_splits(const DataConfig& data, int vocab_size,
                                             const TokenizationOptions& making,
                                             WantedSplits wanted) {
  const bool synthetic = data.data_path.starts_with(synthetic_prefix);
  auto files = synthetic ? std::vector<std::string>() : text_files(data);
  if (data.text_key != DataConfig().text_key && std::ranges::none_of(files, has_text_key))
    log_warn_once("TEXT_KEY={} has no effect: {} has no JSON or Parquet", data.text_key,
                  data.data_path);
  if (!synthetic && files.empty()) return std::nullopt;
  REQUIRE(data.byte_counts != ByteCountSource::sidecar, ExitCode::config,
          "BYTE_COUNTS=sidecar and DATA_PATH={}, which has none (expected shards with "
          "{}_{}_*.bin beside them); set BYTE_COUNTS=auto",
          data.data_path, data.shard_prefix, kSidecarSplit);
  if (synthetic) return synthetic_splits(data, vocab_size);
  return text_splits(data, std::move(files), vocab_size, making, wanted);
}

// Reports missing shards before a missing tokenizer, since that message explains how to get both.
TokenSplits open_shards(const DataConfig& data, int vocab_size, WantedSplits wanted) {
  const auto open = [&](bool is_wanted, std::string_view split) -> std::shared_ptr<ShardSet> {
    if (!is_wanted) return nullptr;
    return std::make_shared<ShardSet>(data.data_path, split, vocab_size, data.shard_prefix);
  };
  const auto train = open(wanted.train, "train"), val = open(wanted.val, "val");
  auto vocabulary = read_vocabulary(data, vocab_size);
  for (const auto& shards : {train, val})
    if (shards) shards->set_pieces(vocabulary.pieces);
  if (!val) return {train, val, std::move(vocabulary)};
  if (auto sidecar = open_sidecar(data, *val)) {
    if (!vocabulary.bytes) vocabulary.bytes.emplace();
    vocabulary.bytes->sidecar = std::move(sidecar);
  }
  return {train, val, std::move(vocabulary)};
}

}  // namespace

TokenSplits open_splits(const DataConfig& data, int vocab_size, const TokenizationOptions& making,
                        WantedSplits wanted) {
  if (auto splits = open_other_splits(data, vocab_size, making, wanted)) return *std::move(splits);
  return open_shards(data, vocab_size, wanted);
}

}  // namespace tg
