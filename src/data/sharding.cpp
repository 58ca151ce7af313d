#include "data/sharding.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/document_encoder.h"
#include "data/document_shuffle.h"
#include "data/shard_writer.h"
#include "data/splitmix64.h"
#include "data/text_progress.h"
#include "data/tokenizer.h"

namespace tg {
namespace {

void prepare_directory(const ShardingOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  REQUIRE(!error, ExitCode::cannot_create, "cannot create {} ({})", options.out_dir,
          error.message());
  const auto old = find_shards(options.out_dir, options.name_prefix);
  REQUIRE(
      old.empty() || options.force, ExitCode::cannot_create,
      "{} holds {} shards already, {} for one; choose another --out or replace them with --force",
      options.out_dir, old.size(), old.empty() ? "" : old.front());
}

// Before anything is made. A pipe is not tried: to open and close it would end its writer.
void require_files(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code ignored;
    if (file != "-" && !std::filesystem::is_fifo(file, ignored)) File::open_stream(file);
  }
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

  // Completes the shards, without their names yet.
  void finish() {
    if (shuffle_) {
      shuffle_->take([this](std::span<const std::uint16_t> tokens) { shards_.append(tokens); });
    }
    shards_.finish();
    report_.shards = std::ssize(shards_.paths());
  }
  void commit() { shards_.commit(); }

  bool wrote(const std::string& path) const {
    return std::ranges::find(shards_.paths(), path) != shards_.paths().end();
  }
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

}  // namespace

ShardingReport make_shards(const ShardingOptions& options) {
  require_files(options.files);
  TextProgress progress("make_shards", options.files);
  const Tokenizer tokenizer(options.tokenizer_path);
  DocumentReader reader(options.files, options.separator, options.replace_invalid);
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
                  train.report().tokens + val.report().tokens);
  }
  TextProgress::clear();

  require_both_splits(options, train.report(), val.report());
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

}  // namespace tg
