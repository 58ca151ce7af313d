#include "data/sharding.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "data/document_overlap.h"
#include "data/shard_writer.h"
#include "data/split_writer.h"
#include "data/token_file.h"
#include "files/file.h"
#include "files/folder.h"
#include "text/document_encoder.h"
#include "text/text_files.h"
#include "text/text_progress.h"

namespace tg {
namespace {

// GPT-2's pieces are 256 bytes, one per merge, and <|endoftext|>.
constexpr int gpt2_merges = 50'000, byte_pieces = 256;

void prepare_directory(const ShardingOptions& options) {
  create_folders(options.out_dir);
  const auto old = find_shards(options.out_dir, options.name_prefix);
  REQUIRE(
      old.empty() || options.force, ExitCode::cannot_create,
      "{} holds {} shards already, {} for one; choose another --out or replace them with --force",
      options.out_dir, old.size(), old.empty() ? "" : old.front());
}

// Checks the number of merges: a truncated file would silently give other ids.
void require_whole_merges(const Tokenizer& tokenizer, const ShardingOptions& options) {
  // A tokenizer.json is whole, or no JSON; a table of ranks is GPT-2's or states its pattern.
  if (tokenizer.format() != "gpt2") return;
  const auto texts = std::ranges::count(tokenizer.model().kinds(), PieceKind::normal);
  const auto merges = texts - byte_pieces;
  if (merges == gpt2_merges) return;
  REQUIRE(
      options.own_merges, ExitCode::bad_data,
      "tokenizer {} has other merges than GPT-2's (expected {}, found {}); copy the file again, "
      "or pass --own-merges if the vocabulary is your own",
      options.tokenizer_path, gpt2_merges, merges);
  log_info("make_shards: {} has {} merges, GPT-2's has {}", options.tokenizer_path, merges,
           gpt2_merges);
}

// Replaces folders by their text files. Test-opens all files before any output is created, except
// pipes: opening and closing a pipe would end its writer.
std::vector<std::string> find_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      const auto texts = find_texts(path);
      log_left_out(path, texts);
      REQUIRE(
          !texts.files.empty(), ExitCode::missing_input,
          "no text in the folder {} (expected files .txt, .jsonl, .json, also .gz, .zst or .xz, "
          "or .parquet); name the files, if they have other names",
          path);
      files.insert(files.end(), texts.files.begin(), texts.files.end());
    } else {
      files.push_back(path);
    }
  }
  for (const std::string& file : files) {
    std::error_code ignored;
    if (file != "-" && !std::filesystem::is_fifo(file, ignored)) File::open_stream(file);
  }
  return files;
}

void require_both_splits(const ShardingOptions& options, const ShardingReport::Split& train,
                         const ShardingReport::Split& val) {
  const std::int64_t documents = train.documents + val.documents;
  const bool val_wanted = options.val_documents > 0 || options.val_fraction > 0;
  REQUIRE(
      train.documents > 0, ExitCode::bad_data,
      "no training documents (expected at least 1, found {} documents in all); give more text or "
      "another document separator",
      documents);
  REQUIRE(val.documents > 0 || !val_wanted, ExitCode::bad_data,
          "no validation documents (expected at least 1 of {}); give more documents, a larger "
          "validation split or another document separator",
          documents);
}

// Gives the shards their final names, and removes the previous shards.
ShardingReport commit(const ShardingOptions& options, SplitWriter& train, SplitWriter& val) {
  const auto old = find_shards(options.out_dir, options.name_prefix);
  if (options.shuffle_seed) progress_line("make_shards writes the shuffled documents");
  train.finish();
  val.finish();
  progress_line("");
  val.commit();
  train.commit();
  for (const std::string& path : old) {
    if (!train.wrote(path) && !val.wrote(path)) std::remove(path.c_str());
  }
  return {train.report(), val.report()};
}

ShardingReport shard_tokens(const ShardingOptions& options) {
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer_path.empty()) {
    tokenizer.emplace(options.tokenizer_path, options.vocab_size, options.caseops, options.choices);
    require_caseops_as_made(*tokenizer);
  }
  const int stated = tokenizer ? tokenizer->pieces() : options.vocab_size;
  const int limit = stated > 0 ? stated : int{kNarrowIds};
  TokenFiles files({.paths = options.files,
                    .limit = limit,
                    .raw = options.token_type,
                    .bos_id = tokenizer ? tokenizer->bos_id() : -1,
                    .val_fraction = options.val_fraction});
  prepare_directory(options);
  SplitWriter train(options, "train", limit);
  SplitWriter val(options, "val", limit);
  DocumentOverlap overlap;
  while (const auto block = files.next()) {
    (block->validation ? val : train).append(block->tokens);
    if (tokenizer && tokenizer->bos_id() >= 0)
      overlap.append_stream(block->validation, block->tokens,
                            static_cast<TokenId>(tokenizer->bos_id()));
  }
  REQUIRE(train.report().tokens > 0, ExitCode::bad_data,
          "no training tokens (expected at least 1, and found only files with val in their names); "
          "give files for training as well");
  REQUIRE(val.report().tokens > 0 || options.val_fraction == 0, ExitCode::bad_data,
          "no validation tokens (expected at least 1, and no file has val in its name); give one, "
          "more tokens or a larger --val-fraction");
  warn_of_overlap(overlap.finish());
  return commit(options, train, val);
}

ShardingReport shard_text(const ShardingOptions& options) {
  const auto files = find_files(options.files);
  TextProgress progress("make_shards", files);
  const Tokenizer tokenizer(options.tokenizer_path, /*vocab_size=*/0, options.caseops,
                            options.choices);
  require_caseops_as_made(tokenizer);
  require_whole_merges(tokenizer, options);
  DocumentReader reader(files, options.separator, options.replace_invalid, options.text_key);
  const auto is_val = [&](std::int64_t document) {
    return is_validation_document(document, options.val_documents, options.val_fraction);
  };
  DocumentEncoder encoder(tokenizer, reader, options.threads,
                          options.byte_sidecar ? is_val : DocumentEncoder::NeedsBytes());
  prepare_directory(options);
  SplitWriter train(options, "train", tokenizer.pieces());
  SplitWriter val(options, "val", tokenizer.pieces());

  std::int64_t documents = 0;
  SplitWriter* split = &train;
  DocumentOverlap overlap;
  for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next()) {
    for (const auto& part : parts) {
      if (part.begins_document) split = is_val(documents++) ? &val : &train;
      split->append(part);
      overlap.append(split == &val, part.tokens, part.begins_document);
    }
    progress.show(train.report().text_bytes + val.report().text_bytes,
                  train.report().tokens + val.report().tokens, reader.bytes_read());
  }
  TextProgress::clear();

  require_both_splits(options, train.report(), val.report());
  warn_of_overlap(overlap.finish());
  return commit(options, train, val);
}

}  // namespace

ShardingReport make_shards(const ShardingOptions& options) {
  return options.from_tokens ? shard_tokens(options) : shard_text(options);
}

}  // namespace tg
