#pragma once
// Documents in a column of strings of a Parquet file, where the build has Apache Arrow.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/parquet_column.h"

namespace tg {

inline bool is_parquet_named(std::string_view path) {
  return path.ends_with(".parquet");
}
// Returns whether this program can read Parquet: libtrain_gpt_parquet.so and Arrow are there.
bool can_read_parquet();

class ParquetTexts {
 public:
  struct Text {
    std::string_view bytes;  // valid until the next call
    std::int64_t row = 0;    // from 1
  };

  // `column`: name of the column, or with dots the path of a struct's member. Throws
  // Error(missing_input), Error(io), and Error(bad_data) if the file is no sound Parquet, lacks the
  // column, or the column holds no strings.
  ParquetTexts(const std::string& path, const std::string& column);

  // Returns the next text; nullopt after the last. Skips null rows, with one warning. Throws
  // Error(bad_data) for damaged data.
  std::optional<Text> next();

  const std::string& path() const { return path_; }
  // Returns the part of the file's bytes that the rows so far stand for, for progress.
  std::int64_t bytes_read() const;

 private:
  std::string path_;
  std::int64_t size_ = 0, row_ = 0;
  bool warned_ = false;
  std::unique_ptr<ParquetColumn> column_;
};

}  // namespace tg
