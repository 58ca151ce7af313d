#pragma once
// Writes a split's documents to its shards and, for the validation split, its byte sidecar.
#include <optional>
#include <span>
#include <string>

#include "data/document_shuffle.h"
#include "data/shard_writer.h"
#include "data/sharding.h"
#include "text/document_encoder.h"

namespace tg {

class SplitWriter {
 public:
  // `split` is train or val, `vocab_size` above all ids. `options` must outlive this object.
  SplitWriter(const ShardingOptions& options, const std::string& split, std::int64_t vocab_size);

  // Appends a document or a part of one, or tokens outside documents. append(), finish() and
  // commit() throw Error(cannot_create) and Error(io) (disk full).
  void append(const DocumentEncoder::Part& part);
  void append(std::span<const TokenId> tokens);

  // Completes the files under their temporary names.
  void finish();
  void commit();

  bool wrote(const std::string& path) const;
  const ShardingReport::Split& report() const { return report_; }

 private:
  // Shards of tokens or of their byte counts, whose documents may be shuffled.
  struct Stream {
    Stream(const ShardingOptions& options, const std::string& split, const std::string& name,
           int bytes_each);
    // Takes stored numbers.
    void append(std::span<const std::byte> numbers, bool begins_document);
    void finish();

    ShardWriter shards;
    std::optional<DocumentShuffle> shuffle;
  };

  int id_bytes_;
  Stream tokens_;
  std::optional<Stream> bytes_;
  ShardingReport::Split report_;
};

}  // namespace tg
