#pragma once
// The texts of all documents that a DocumentReader reads.
#include <string>
#include <utility>
#include <vector>

#include "tests/files/testing.h"
#include "text/document_reader.h"

namespace tg::test {

inline std::vector<std::string> documents_of(DocumentReader&& reader) {
  std::vector<std::string> texts;
  while (auto document = reader.next()) texts.push_back(std::move(document->text));
  return texts;
}
inline std::vector<std::string> documents_of(const std::string& path, Separator separator) {
  return documents_of(DocumentReader({path}, separator, false));
}

}  // namespace tg::test
