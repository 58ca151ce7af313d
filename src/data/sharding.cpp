#include "data/sharding.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "data/document_encoder.h"
#include "data/shard_writer.h"
#include "data/tokenizer.h"

namespace tg {
namespace {

using Clock = std::chrono::steady_clock;

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

// Bytes of all files, for the progress line; 0 if one is the standard input.
std::int64_t total_bytes(const std::vector<std::string>& files) {
  std::int64_t total = 0;
  for (const std::string& file : files) {
    if (file == "-") return 0;
    total += File::open(file).size();
  }
  return total;
}

class Progress {
 public:
  explicit Progress(std::int64_t total) : total_(total) {}
  void show(std::int64_t bytes, std::int64_t tokens) {
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double megabytes = static_cast<double>(bytes) / 1e6;
    const std::string share =
        total_ > 0 ? fmt::format(" ({:.0f}%)", 1e8 * megabytes / static_cast<double>(total_)) : "";
    progress_line(fmt::format("make_shards {:.1f} MB{} {:.2f} M tokens {:.1f} MB/s", megabytes,
                              share, static_cast<double>(tokens) / 1e6, megabytes / seconds));
  }

 private:
  std::int64_t total_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

void require_both_splits(const ShardingOptions& options, const ShardingReport& report) {
  const std::int64_t documents = report.train.documents + report.val.documents;
  const bool val_wanted = options.val_documents > 0 || options.val_fraction > 0;
  REQUIRE(
      report.train.documents > 0, ExitCode::bad_data,
      "no training documents (expected at least 1, found {} documents in all); give more text or "
      "another document separator",
      documents);
  REQUIRE(report.val.documents > 0 || !val_wanted, ExitCode::bad_data,
          "no validation documents (expected at least 1 of {}); give more documents, a larger "
          "validation split or another document separator",
          documents);
}

}  // namespace

ShardingReport make_shards(const ShardingOptions& options) {
  const std::int64_t bytes = total_bytes(options.files);
  const Tokenizer tokenizer(options.tokenizer_path);
  DocumentReader reader(options.files, options.separator, options.replace_invalid);
  DocumentEncoder encoder(tokenizer, reader, options.threads);
  prepare_directory(options);
  ShardWriter train(options.out_dir, options.name_prefix, "train", options.shard_tokens);
  ShardWriter val(options.out_dir, options.name_prefix, "val", options.shard_tokens);

  ShardingReport report;
  Progress progress(bytes);
  bool is_val = false;
  for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next()) {
    for (const auto& part : parts) {
      if (part.begins_document) {
        const std::int64_t index = report.train.documents + report.val.documents;
        is_val = is_validation_document(index, options.val_documents, options.val_fraction);
        ++(is_val ? report.val : report.train).documents;
      }
      (is_val ? val : train).append(part.tokens);
      (is_val ? report.val : report.train).text_bytes += part.text_bytes;
    }
    progress.show(report.train.text_bytes + report.val.text_bytes, train.tokens() + val.tokens());
  }
  progress_line("");

  require_both_splits(options, report);
  const auto old = find_shards(options.out_dir, options.name_prefix);
  train.finish();
  val.commit();
  train.commit();
  for (const std::string& path : old) {
    const auto is_new = [&](const ShardWriter& writer) {
      return std::ranges::find(writer.paths(), path) != writer.paths().end();
    };
    if (!is_new(train) && !is_new(val)) std::remove(path.c_str());
  }
  report.train.tokens = train.tokens();
  report.train.shards = std::ssize(train.paths());
  report.val.tokens = val.tokens();
  report.val.shards = std::ssize(val.paths());
  return report;
}

}  // namespace tg
