// Parquet files, of which the column "text" is read; without Arrow they are refused.
#include "tests/fuzz/target.h"
#include "text/parquet_texts.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {fixture("parquet_pages.parquet"), fixture("parquet_dictionary.parquet")};
}

void read(std::string_view bytes) {
  static ScratchFile file("file.parquet");
  file.put(bytes);
  ParquetTexts texts(file.path(), "text");
  std::string last;
  while (const auto text = texts.next()) last = text->bytes;  // reads every byte
}

}  // namespace tg::fuzz
