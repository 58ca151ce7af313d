#include "data/sharding.h"

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/is_in.h"
#include "base/log.h"
#include "data/document_shuffle.h"
#include "data/shard_writer.h"
#include "data/splitmix64.h"
#include "data/token_files.h"
#include "files/file.h"
#include "files/folder.h"
#include "text/document_encoder.h"
#include "text/text_files.h"
#include "text/text_progress.h"
#include "text/tokenizer.h"

namespace tg {
namespace {

// GPT-2's pieces are 256 bytes, one for each merge, and <|endoftext|>.
constexpr int gpt2_merges = 50'000, gpt2_pieces = 256 + gpt2_merges + 1;

void prepare_directory(const ShardingOptions& options) {
  create_folders(options.out_dir);
  const auto old = find_shards(options.out_dir, options.name_prefix);
  REQUIRE(
      old.empty() || options.force, ExitCode::cannot_create,
      "{} holds {} shards already, {} for one; choose another --out or replace them with --force",
      options.out_dir, old.size(), old.empty() ? "" : old.front());
}

// A file that was cut short gives other ids without a sign of it.
void require_whole_merges(const Tokenizer& tokenizer, const ShardingOptions& options) {
  if (!tokenizer.byte_level() || tokenizer.pieces() == gpt2_pieces) return;
  const auto merges = tokenizer.pieces() - (gpt2_pieces - gpt2_merges);
  REQUIRE(
      options.own_merges, ExitCode::bad_data,
      "tokenizer {} has other merges than GPT-2's (expected {}, found {}); copy the file again, "
      "or say with --own-merges that it is a vocabulary of your own",
      options.tokenizer_path, gpt2_merges, merges);
  log_info("make_shards: {} has {} merges, GPT-2's has {}", options.tokenizer_path, merges,
           gpt2_merges);
}

// With the texts of folders in their place. Before anything is made, all files are tried, but for
// pipes: to open and close one would end its writer.
std::vector<std::string> find_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      const auto texts = find_texts(path);
      log_left_out(path, texts);
      REQUIRE(!texts.files.empty(), ExitCode::missing_input,
              "no text in the folder {} (expected files .txt, .jsonl or .json, also .gz, .zst or "
              ".xz); name the files, if they have other names",
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

// A split's documents on their way to its shards.
class SplitWriter {
 public:
  SplitWriter(const ShardingOptions& options, const std::string& split)
      : shards_(options.out_dir, options.name_prefix, split, options.shard_tokens) {
    if (options.shuffle_seed) {
      shuffle_.emplace(options.out_dir, key_of(*options.shuffle_seed, split));
    }
  }

  void append(const DocumentEncoder::Part& part) {
    report_.documents += part.begins_document;
    report_.tokens += std::ssize(part.tokens);
    report_.text_bytes += part.text_bytes;
    if (shuffle_) {
      shuffle_->append(part.tokens, part.begins_document);
    } else {
      shards_.append(part.tokens);
    }
  }

  void append(std::span<const std::uint16_t> tokens) {
    report_.tokens += std::ssize(tokens);
    shards_.append(tokens);
  }

  // Completes the shards, without their names yet.
  void finish() {
    if (shuffle_) {
      shuffle_->take([this](std::span<const std::uint16_t> tokens) { shards_.append(tokens); });
    }
    shards_.finish();
    report_.shards = std::ssize(shards_.paths());
  }
  void commit() { shards_.commit(); }

  bool wrote(const std::string& path) const { return is_in(shards_.paths(), path); }
  const ShardingReport::Split& report() const { return report_; }

 private:
  ShardWriter shards_;
  std::optional<DocumentShuffle> shuffle_;
  ShardingReport::Split report_;
};

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

// Gives the shards their names, and removes those that were there before.
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
    tokenizer.emplace(options.tokenizer_path, options.vocab_size, options.caseops);
  }
  const int vocab_size = tokenizer ? tokenizer->pieces() : options.vocab_size;
  TokenFiles files({.paths = options.files,
                    .limit = vocab_size > 0 ? vocab_size : 1 << 16,
                    .bos_id = tokenizer ? tokenizer->bos_id() : -1,
                    .val_fraction = options.val_fraction});
  prepare_directory(options);
  SplitWriter train(options, "train");
  SplitWriter val(options, "val");
  while (const auto block = files.next()) (block->validation ? val : train).append(block->tokens);
  REQUIRE(train.report().tokens > 0, ExitCode::bad_data,
          "no training tokens (expected at least 1, and found only files with val in their names); "
          "give files for training as well");
  REQUIRE(val.report().tokens > 0 || options.val_fraction == 0, ExitCode::bad_data,
          "no validation tokens (expected at least 1, and no file has val in its name); give one, "
          "more tokens or a larger --val-fraction");
  return commit(options, train, val);
}

ShardingReport shard_text(const ShardingOptions& options) {
  const auto files = find_files(options.files);
  TextProgress progress("make_shards", files);
  const Tokenizer tokenizer(options.tokenizer_path, /*vocab_size=*/0, options.caseops);
  require_whole_merges(tokenizer, options);
  DocumentReader reader(files, options.separator, options.replace_invalid, options.text_key);
  DocumentEncoder encoder(tokenizer, reader, options.threads);
  prepare_directory(options);
  SplitWriter train(options, "train");
  SplitWriter val(options, "val");

  std::int64_t documents = 0;
  SplitWriter* split = &train;
  for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next()) {
    for (const auto& part : parts) {
      if (part.begins_document) {
        const bool is_val =
            is_validation_document(documents++, options.val_documents, options.val_fraction);
        split = is_val ? &val : &train;
      }
      split->append(part);
    }
    progress.show(train.report().text_bytes + val.report().text_bytes,
                  train.report().tokens + val.report().tokens, reader.bytes_read());
  }
  TextProgress::clear();

  require_both_splits(options, train.report(), val.report());
  return commit(options, train, val);
}

}  // namespace

ShardingReport make_shards(const ShardingOptions& options) {
  return options.from_tokens ? shard_tokens(options) : shard_text(options);
}

}  // namespace tg
