#include "data/document_shuffle.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "data/splitmix64.h"

namespace tg {
namespace {

// Stored before a part's tokens.
struct Header {
  std::uint64_t key, bytes;
};

// Appends bytes [at, at + count) of the file.
void append_bytes(std::vector<std::byte>& bytes, const File& file, std::int64_t at,
                  std::int64_t count) {
  const auto before = bytes.size();
  bytes.resize(before + static_cast<std::size_t>(count));
  file.read_at(at, std::span(bytes).subspan(before));
}

// Visits the complete parts at the beginning of `stored`; returns their size.
std::size_t for_each_stored(std::span<const std::byte> stored, const PartVisitor& visit) {
  std::size_t at = 0;
  while (stored.size() - at >= sizeof(Header)) {
    Header header{};
    std::memcpy(&header, &stored[at], sizeof header);
    const auto tokens = stored.subspan(at + sizeof(Header));
    if (tokens.size() < header.bytes) break;
    visit({header.key, tokens.first(header.bytes)});
    at += sizeof(Header) + header.bytes;
  }
  return at;
}

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

void DocumentBucket::append(const DocumentPart& part) {
  if (documents_ == 0 || part.key != last_key_) ++documents_;
  last_key_ = part.key;
  const Header header{part.key, part.tokens.size()};
  const auto at = buffer_.size();
  buffer_.resize(at + sizeof(Header));
  std::memcpy(&buffer_[at], &header, sizeof header);
  buffer_.insert(buffer_.end(), part.tokens.begin(), part.tokens.end());
  if (std::ssize(buffer_) < buffer_bytes_) return;
  if (!file_) file_.emplace(File::temporary(dir_));
  file_->append(buffer_);
  file_bytes_ += std::ssize(buffer_);
  buffer_.clear();
}

void DocumentBucket::for_each(const PartVisitor& visit) const {
  std::vector<std::byte> bytes;
  for (std::int64_t at = 0; at < file_bytes_;) {
    const auto count = std::min(buffer_bytes_, file_bytes_ - at);
    append_bytes(bytes, *file_, at, count);
    at += count;
    const auto visited = for_each_stored(bytes, visit);
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(visited));
  }
  for_each_stored(buffer_, visit);
}

std::vector<std::byte> DocumentBucket::read() const {
  std::vector<std::byte> stored;
  stored.reserve(static_cast<std::size_t>(bytes()));
  if (file_) append_bytes(stored, *file_, 0, file_bytes_);
  stored.insert(stored.end(), buffer_.begin(), buffer_.end());
  return stored;
}

DocumentShuffle::DocumentShuffle(std::string dir, std::uint64_t key, ShuffleLimits limits)
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
