#include "data/split_writer.h"

#include "base/is_in.h"
#include "data/shard.h"
#include "data/splitmix64.h"
#include "data/token_ids.h"

namespace tg {

// The key depends only on the seed and the split, so both streams shuffle documents alike.
SplitWriter::Stream::Stream(const ShardingOptions& options, const std::string& split,
                            const std::string& name, int bytes_each)
    : shards(options.out_dir, options.name_prefix, name, options.shard_tokens, bytes_each) {
  if (options.shuffle_seed) shuffle.emplace(options.out_dir, key_of(*options.shuffle_seed, split));
}

void SplitWriter::Stream::append(std::span<const std::byte> numbers, bool begins_document) {
  if (shuffle) {
    shuffle->append(numbers, begins_document);
  } else {
    shards.append(numbers);
  }
}

void SplitWriter::Stream::finish() {
  if (shuffle) {
    shuffle->take([this](std::span<const std::byte> numbers) { shards.append(numbers); });
  }
  shards.finish();
}

SplitWriter::SplitWriter(const ShardingOptions& options, const std::string& split,
                         std::int64_t vocab_size)
    : id_bytes_(id_bytes_below(vocab_size)), tokens_(options, split, split, id_bytes_) {
  if (options.byte_sidecar && split == "val")
    bytes_.emplace(options, split, std::string(kSidecarSplit), int{sizeof(std::uint16_t)});
}

void SplitWriter::append(const DocumentEncoder::Part& part) {
  report_.documents += part.begins_document;
  report_.tokens += std::ssize(part.tokens);
  report_.text_bytes += part.text_bytes;
  tokens_.append(stored_ids(part.tokens, id_bytes_), part.begins_document);
  if (bytes_) bytes_->append(std::as_bytes(std::span(part.bytes)), part.begins_document);
}

void SplitWriter::append(std::span<const TokenId> tokens) {
  report_.tokens += std::ssize(tokens);
  tokens_.shards.append(stored_ids(tokens, id_bytes_));
}

void SplitWriter::finish() {
  if (bytes_) bytes_->finish();
  tokens_.finish();
  report_.shards = std::ssize(tokens_.shards.paths());
}

// Commits the sidecar first: shards without it would be read as if they had none.
void SplitWriter::commit() {
  if (bytes_) bytes_->shards.commit();
  tokens_.shards.commit();
}

bool SplitWriter::wrote(const std::string& path) const {
  return is_in(tokens_.shards.paths(), path) || (bytes_ && is_in(bytes_->shards.paths(), path));
}

}  // namespace tg
