#pragma once
// Interface between the program and libtrain_gpt_parquet.so, which reads Parquet with Apache Arrow.
// A library of its own, loaded when the first such file is read, since Arrow is optional: without
// it a program starts and reads everything else.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// The strings of one column, in order, decoded page by page.
class ParquetColumn {
 public:
  struct Row {
    std::int64_t number = 0;               // from 1
    std::optional<std::string_view> text;  // valid until the next call; nullopt: null
  };

  virtual ~ParquetColumn() = default;
  // Returns the next row; nullopt after the last. Throws std::exception for damaged data.
  virtual std::optional<Row> next() = 0;
  virtual std::int64_t rows() const = 0;
};

// The symbol kOpenParquetColumn. `column`: path in the schema, with dots between the names of
// nested groups. Takes over the file descriptor. Throws std::exception if the file is no sound
// Parquet, or if the column is missing or holds no strings.
using OpenParquetColumn = ParquetColumn*(int descriptor, const std::string& column);
inline constexpr char kOpenParquetColumn[] = "train_gpt_open_parquet_column";
inline constexpr char kParquetLibrary[] = "libtrain_gpt_parquet.so";

}  // namespace tg
