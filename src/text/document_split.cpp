#include "text/document_split.h"

#include <cmath>

namespace tg {

bool is_validation_document(std::int64_t index, std::int64_t val_documents, double val_fraction) {
  if (val_documents > 0) return index < val_documents;
  const auto due = [&](std::int64_t documents) {
    return std::floor(val_fraction * static_cast<double>(documents));
  };
  return due(index + 1) > due(index);
}

}  // namespace tg
