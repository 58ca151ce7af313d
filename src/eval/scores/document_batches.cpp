#include "eval/scores/document_batches.h"

#include <algorithm>
#include <cmath>

#include "data/segments.h"

namespace tg {

std::vector<DocumentSpan> find_documents(const Ids& tokens, std::int64_t bos_id) {
  std::vector<DocumentSpan> documents;
  const auto count = std::visit([](auto ids) { return std::ssize(ids); }, tokens);
  const auto starts = segment_starts(tokens, count, {.bos_id = bos_id});
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto end = i + 1 < starts.size() ? starts[i + 1] + 1 : count;
    if (end - starts[i] > 1) documents.push_back({starts[i], end - starts[i]});
  }
  return documents;
}

std::int64_t documents_to_score(std::int64_t documents, double fraction) {
  const auto rounded = std::llround(static_cast<double>(documents) * fraction);
  return std::min<std::int64_t>(documents, std::max<std::int64_t>(rounded, 1));
}

std::vector<DocumentSpan> find_documents_to_score(const Ids& tokens, std::int64_t bos_id,
                                                  double fraction) {
  auto documents = find_documents(tokens, bos_id);
  documents.resize(static_cast<std::size_t>(documents_to_score(std::ssize(documents), fraction)));
  return documents;
}

std::vector<DocumentBatch> batch_by_length(std::vector<DocumentSpan> documents,
                                           std::int64_t batch_size) {
  std::ranges::stable_sort(documents, {}, &DocumentSpan::length);
  std::vector<DocumentBatch> batches;
  for (std::int64_t begin = 0; begin < std::ssize(documents); begin += batch_size) {
    const auto first = documents.begin() + begin;
    const auto count = std::min(batch_size, documents.end() - first);
    batches.push_back({.index = std::ssize(batches), .documents = {first, first + count}});
  }
  std::ranges::stable_sort(batches, std::ranges::greater(), &DocumentBatch::longest);
  return batches;
}

std::vector<std::int64_t> phase_boundaries(std::int64_t prefix_docs, std::int64_t num_phases) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t k = 1; prefix_docs > 0 && k <= num_phases; ++k)
    boundaries.push_back(prefix_docs * k / num_phases);
  return boundaries;
}

namespace {

// The first `count` documents of the batches, ordered by batch index.
std::vector<DocumentSpan> shortest_documents(std::span<const DocumentBatch> scored,
                                             std::int64_t count) {
  std::vector<const DocumentBatch*> by_index;
  for (const auto& batch : scored) by_index.push_back(&batch);
  std::ranges::sort(by_index, {}, &DocumentBatch::index);
  std::vector<DocumentSpan> documents;
  for (const auto* batch : by_index)
    documents.insert(documents.end(), batch->documents.begin(), batch->documents.end());
  documents.resize(static_cast<std::size_t>(count));
  return documents;
}

}  // namespace

std::vector<TttPhase> plan_phases(std::span<const DocumentBatch> batches,
                                  std::span<const std::int64_t> boundaries) {
  std::vector<TttPhase> phases;
  std::int64_t scored = 0;
  for (std::size_t i = 0; i < batches.size() && phases.size() < boundaries.size(); ++i) {
    scored += std::ssize(batches[i].documents);
    const auto boundary = boundaries[phases.size()];
    if (scored < boundary) continue;
    phases.push_back({.batches = static_cast<std::int64_t>(i) + 1,
                      .scored = scored,
                      .training = shortest_documents(batches.first(i + 1), boundary)});
  }
  return phases;
}

std::vector<TokenId> join_documents(const Ids& tokens, std::span<const DocumentSpan> documents,
                                    std::int64_t bos_id, bool repeat_bos) {
  std::vector<TokenId> joined;
  const auto bos = static_cast<TokenId>(bos_id);
  const auto join = [&](auto ids) {
    for (const auto& [start, length] : documents) {
      auto own = ids.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(length));
      const bool follows_bos = !joined.empty() && joined.back() == bos;
      if (!repeat_bos && follows_bos && own.front() == bos) own = own.subspan(1);
      joined.insert(joined.end(), own.begin(), own.end());
    }
  };
  std::visit(join, tokens);
  return joined;
}

std::int64_t chunks_of_document(std::int64_t predictions, const ChunkOptions& options) {
  return (predictions + options.chunk_size - 1) / options.chunk_size;
}

std::int64_t row_length(std::int64_t chunk, const ChunkOptions& options) {
  return std::min((chunk + 1) * options.chunk_size, options.longest_row);
}

ChunkWindow chunk_window(std::int64_t predictions, std::int64_t chunk,
                         const ChunkOptions& options) {
  if (chunk >= chunks_of_document(predictions, options)) return {};
  const auto begin = chunk * options.chunk_size;
  const auto end = std::min(begin + options.chunk_size, predictions);
  const auto start = std::max<std::int64_t>(0, end - options.longest_row);
  return {.start = start, .length = end - start, .offset = begin - start, .scored = end - begin};
}

}  // namespace tg
