#pragma once
// A split's documents on their way to its shards and to the byte sidecar of the validation split.
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
  // split: train or val. `options` must outlive this.
  SplitWriter(const ShardingOptions& options, const std::string& split);

  // A document or a part of one, or tokens of no document. Errors of these and of what follows:
  // cannot_create, io (disk full).
  void append(const DocumentEncoder::Part& part);
  void append(std::span<const std::uint16_t> tokens);

  // Completes the files, without their names yet.
  void finish();
  void commit();

  bool wrote(const std::string& path) const;
  const ShardingReport::Split& report() const { return report_; }

 private:
  // Shards of tokens or of their bytes, whose documents may be shuffled.
  struct Stream {
    Stream(const ShardingOptions& options, const std::string& split, const std::string& name);
    void append(std::span<const std::uint16_t> numbers, bool begins_document);
    void finish();

    ShardWriter shards;
    std::optional<DocumentShuffle> shuffle;
  };

  Stream tokens_;
  std::optional<Stream> bytes_;
  ShardingReport::Split report_;
};

}  // namespace tg
