#include "eval/document_chunks.h"

#include <algorithm>

namespace tg {

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
