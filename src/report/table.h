#pragma once
// Tables by step that are thinned to a plot's resolution as rows are added: memory and output are
// bounded, however many rows there are.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tg {

// A number for each column; NaN: missing.
using Row = std::vector<double>;

// Rows in at most `most` (even) parts of equal length. When another part is needed, each two
// neighbours are merged.
template <class Part>
class Parts {
 public:
  explicit Parts(std::size_t most) : most_(most) {}

  // Returns the part of the next row. merge(Part&, Part&&) merges the second part into the first.
  Part& of_next_row(auto&& merge) {
    if (rows_ % length_ == 0) {
      if (parts_.size() == most_) halve(merge);
      parts_.emplace_back();
    }
    ++rows_;
    return parts_.back();
  }
  std::size_t rows() const { return rows_; }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }

 private:
  void halve(auto&& merge) {
    for (std::size_t i = 0; i < most_ / 2; ++i) {
      if (i > 0) parts_[i] = std::move(parts_[2 * i]);
      merge(parts_[i], std::move(parts_[2 * i + 1]));
    }
    parts_.resize(most_ / 2);
    length_ *= 2;
  }

  std::size_t most_, length_ = 1, rows_ = 0;
  std::vector<Part> parts_;
};

// Keeps the first and the last row and, in each part, the rows with the minimum, the maximum and
// the first missing number of every column with `extremes`; all rows up to `parts` rows.
class ThinnedTable {
 public:
  struct Column {
    std::string name;
    bool extremes = false;
  };
  ThinnedTable(std::vector<Column> columns, std::size_t parts)
      : columns_(std::move(columns)), parts_(parts) {}

  void add_row(Row row);
  std::size_t rows() const { return parts_.rows(); }  // number of added rows
  std::vector<Row> kept() const;                      // kept rows, in order
  // Returns {"rows": added rows, "columns": {NAME: [number or null of each row of `kept`, ...]}}.
  nlohmann::json json(const std::vector<Row>& kept) const;

 private:
  struct NumberedRow {
    std::size_t number = 0;  // row number, from 0
    Row values = {};
  };
  using Part = std::vector<NumberedRow>;
  void keep_extremes(Part& part) const;

  std::vector<Column> columns_;
  Parts<Part> parts_;
  NumberedRow first_, last_;
};

// Keeps each part's mean of every column, without missing numbers; all rows up to `parts` rows.
class AveragedTable {
 public:
  AveragedTable(std::vector<std::string> columns, std::size_t parts)
      : columns_(std::move(columns)), parts_(parts) {}

  void add_row(const Row& row);
  std::size_t rows() const { return parts_.rows(); }
  nlohmann::json json() const;  // in ThinnedTable's form

 private:
  struct Mean {
    double sum = 0;
    std::size_t count = 0;
  };
  using Part = std::vector<Mean>;  // by column

  std::vector<std::string> columns_;
  Parts<Part> parts_;
};

}  // namespace tg
