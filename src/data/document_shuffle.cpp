#include "data/document_shuffle.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "data/splitmix64.h"

namespace tg {
namespace {

constexpr int key_bits = 64;
constexpr int bucket_bits = 6;  // key bits per pass: 64 buckets

void take_sorted(const DocumentBucket bucket, const DocumentShuffle::Write& write) {
  const auto stored = bucket.read();
  std::vector<DocumentPart> parts;
  for_each_stored(stored, [&](const DocumentPart& part) { parts.push_back(part); });
  // A stable sort, since the parts of a document have equal keys.
  std::ranges::stable_sort(parts, {}, &DocumentPart::key);
  for (const DocumentPart& part : parts) write(part.tokens);
}

}  // namespace

DocumentShuffle::DocumentShuffle(std::string dir, std::uint64_t key)
    : DocumentShuffle(std::move(dir), key, Limits{}) {}

DocumentShuffle::DocumentShuffle(std::string dir, std::uint64_t key, Limits limits)
    : dir_(std::move(dir)), key_(key), limits_(limits), buckets_(make_buckets()) {}

void DocumentShuffle::append(std::span<const std::byte> tokens, bool begins_document) {
  if (begins_document) document_key_ = splitmix64(key_, documents_++);
  assert(documents_ > 0);
  deal({document_key_, tokens}, key_bits, buckets_);
}

void DocumentShuffle::take(const Write& write) {
  take(std::exchange(buckets_, make_buckets()), key_bits - bucket_bits, write);
}

DocumentShuffle::Buckets DocumentShuffle::make_buckets() const {
  Buckets buckets;
  for (int i = 0; i < 1 << bucket_bits; ++i) buckets.emplace_back(dir_, limits_.buffer_bytes);
  return buckets;
}

void DocumentShuffle::deal(const DocumentPart& part, int bits, Buckets& buckets) {
  buckets[(part.key >> (bits - bucket_bits)) % buckets.size()].append(part);
}

void DocumentShuffle::take(Buckets buckets, int bits, const Write& write) const {
  for (DocumentBucket& bucket : buckets) {
    if (bucket.bytes() <= limits_.sorted_bytes || bucket.documents() == 1 || bits < bucket_bits) {
      take_sorted(std::move(bucket), write);
    } else {
      take(deal_again(std::move(bucket), bits), bits - bucket_bits, write);
    }
  }
}

DocumentShuffle::Buckets DocumentShuffle::deal_again(const DocumentBucket bucket, int bits) const {
  auto finer = make_buckets();
  bucket.for_each([&](const DocumentPart& part) { deal(part, bits, finer); });
  return finer;
}

}  // namespace tg
