#pragma once
// Numbers by step, and fewer of them for a picture.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tg {

// Columns of equal length; NaN: there is no number.
struct Table {
  struct Column {
    std::string name;
    bool extremes = false;  // thinned() keeps the least and the greatest number of each part
    std::vector<double> values = {};
  };
  std::vector<Column> columns;

  std::size_t rows() const { return columns.front().values.size(); }
  void add_row(const std::vector<double>& values);
};

// The rows in so many equal parts: of each part the rows with the least, the greatest and the first
// missing number of every column with `extremes`; the first and the last row; all rows of a table
// that is not larger than that.
Table thinned(const Table& table, std::size_t parts);
// The mean of each of so many equal parts, column by column, without missing numbers; all rows of a
// table that is not larger than that.
Table averaged(const Table& table, std::size_t parts);

// {"rows": of the whole table, "columns": {NAME: [number or null, ...]}}
nlohmann::json table_json(const Table& table, std::size_t rows_of_all);

}  // namespace tg
