// libtrain_gpt_parquet.so: reads a string column of a Parquet file with Apache Arrow.
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <fmt/format.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include <array>
#include <memory>
#include <stdexcept>

#include "text/parquet_column.h"

namespace tg {
namespace {

constexpr std::int64_t kBatchRows = 256;
constexpr std::int64_t kReadBytes = 1 << 20;
// A page is decoded whole. Bounds what a damaged size allocates.
constexpr std::int64_t kMaxMemory = std::int64_t{3} << 30;

std::string damaged(const parquet::ParquetException& error) {
  return fmt::format("damaged, or no Parquet ({})", error.what());
}

std::string top_level_names(const parquet::SchemaDescriptor& schema) {
  std::string names;
  const auto& root = *schema.group_node();
  for (int i = 0; i < root.field_count(); ++i) {
    if (i == 20) return names + ", ...";
    names += (i > 0 ? ", " : "") + root.field(i)->name();
  }
  return names.empty() ? "none" : names;
}

// Returns the index of the column with this path. Throws if it holds no strings.
int find_strings(const parquet::SchemaDescriptor& schema, const std::string& column) {
  const int index = schema.ColumnIndex(column);
  if (index < 0) {
    const int field = schema.group_node()->FieldIndex(column);
    if (field >= 0)
      throw std::runtime_error(fmt::format(
          "the column '{}' is nested (expected strings; a member of a struct is named with a dot, "
          "list elements are not read)",
          column));
    throw std::runtime_error(
        fmt::format("no column '{}' (expected one of strings, found columns: {})", column,
                    top_level_names(schema)));
  }
  const auto& found = *schema.Column(index);
  if (found.max_repetition_level() > 0)
    throw std::runtime_error(fmt::format("the column '{}' holds lists (expected strings)", column));
  const auto& type = *found.logical_type();
  if (found.physical_type() != parquet::Type::BYTE_ARRAY ||
      !(type.is_string() || type.is_none() || type.is_JSON() || type.is_enum()))
    throw std::runtime_error(fmt::format("the column '{}' is {} {} (expected strings)", column,
                                         parquet::TypeToString(found.physical_type()),
                                         type.ToString()));
  return index;
}

class ArrowColumn final : public ParquetColumn {
 public:
  ArrowColumn(int descriptor, const std::string& column) {
    auto file = arrow::io::ReadableFile::Open(descriptor, &pool_);
    if (!file.ok()) throw std::runtime_error(file.status().message());
    parquet::ReaderProperties properties(&pool_);
    properties.enable_buffered_stream();  // else a row group's column is read whole
    properties.set_buffer_size(kReadBytes);
    file_ = parquet::ParquetFileReader::Open(*file, properties);
    column_ = find_strings(*file_->metadata()->schema(), column);
  }

  std::optional<Row> next() override {
    try {
      while (at_ == levels_read_)
        if (!read_batch()) return {};
    } catch (const parquet::ParquetException& error) {
      throw std::runtime_error(damaged(error));
    }
    ++row_;
    const bool null = definition_levels_[at_++] < reader_->descr()->max_definition_level();
    if (null) return Row{.number = row_, .text = {}};
    const auto& value = values_[value_++];
    return Row{.number = row_,
               .text = std::string_view(reinterpret_cast<const char*>(value.ptr), value.len)};
  }

  std::int64_t rows() const override { return file_->metadata()->num_rows(); }

 private:
  // Reads rows of one page; their bytes stay until the next call.
  bool read_batch() {
    while (!reader_ || !reader_->HasNext()) {
      if (group_ == file_->metadata()->num_row_groups()) return false;
      row_group_ = file_->RowGroup(group_++);
      reader_ = std::dynamic_pointer_cast<parquet::ByteArrayReader>(row_group_->Column(column_));
    }
    definition_levels_.fill(0);  // a required column has none
    std::int64_t values_read = 0;
    levels_read_ = reader_->ReadBatch(kBatchRows, definition_levels_.data(), nullptr,
                                      values_.data(), &values_read);
    at_ = value_ = 0;
    if (levels_read_ == 0)
      throw parquet::ParquetException("a page has fewer rows than its header says");
    return true;
  }

  arrow::CappedMemoryPool pool_{arrow::default_memory_pool(), kMaxMemory};
  std::unique_ptr<parquet::ParquetFileReader> file_;
  std::shared_ptr<parquet::RowGroupReader> row_group_;
  std::shared_ptr<parquet::ByteArrayReader> reader_;
  int column_ = 0, group_ = 0;
  std::array<std::int16_t, kBatchRows> definition_levels_{};
  std::array<parquet::ByteArray, kBatchRows> values_{};
  std::int64_t levels_read_ = 0, at_ = 0, row_ = 0;
  std::size_t value_ = 0;
};

}  // namespace
}  // namespace tg

extern "C" tg::ParquetColumn* train_gpt_open_parquet_column(int descriptor,
                                                            const std::string& column) {
  try {
    return new tg::ArrowColumn(descriptor, column);
  } catch (const parquet::ParquetException& error) {
    throw std::runtime_error(tg::damaged(error));
  }
}
