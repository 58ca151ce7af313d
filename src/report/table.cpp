#include "report/table.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace tg {
namespace {

Table empty_like(const Table& table) {
  Table result;
  for (const auto& column : table.columns) result.columns.push_back({column.name, column.extremes});
  return result;
}

// Adds the rows from `begin` to `end` that thinned() keeps for one column.
void keep_extremes(const std::vector<double>& values, std::size_t begin, std::size_t end,
                   std::set<std::size_t>& kept) {
  std::size_t least = end, greatest = end, missing = end;
  for (std::size_t row = begin; row < end; ++row) {
    if (std::isnan(values[row])) {
      missing = std::min(missing, row);
    } else {
      if (least == end || values[row] < values[least]) least = row;
      if (greatest == end || values[row] > values[greatest]) greatest = row;
    }
  }
  for (const auto row : {least, greatest, missing}) {
    if (row < end) kept.insert(row);
  }
}

double mean(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double sum = 0;
  int count = 0;
  for (std::size_t row = begin; row < end; ++row) {
    if (std::isnan(values[row])) continue;
    sum += values[row];
    ++count;
  }
  return count == 0 ? std::nan("") : sum / count;
}

}  // namespace

void Table::add_row(const std::vector<double>& values) {
  assert(values.size() == columns.size());
  for (std::size_t i = 0; i < values.size(); ++i) columns[i].values.push_back(values[i]);
}

Table thinned(const Table& table, std::size_t parts) {
  const auto rows = table.rows();
  const auto watched = std::ranges::count_if(table.columns, &Table::Column::extremes);
  if (rows <= parts * 2 * static_cast<std::size_t>(watched)) return table;
  std::set<std::size_t> kept = {0, rows - 1};
  for (const auto& column : table.columns) {
    for (std::size_t part = 0; column.extremes && part < parts; ++part) {
      keep_extremes(column.values, rows * part / parts, rows * (part + 1) / parts, kept);
    }
  }
  Table result = empty_like(table);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    for (const auto row : kept) {
      result.columns[i].values.push_back(table.columns[i].values[row]);
    }
  }
  return result;
}

Table averaged(const Table& table, std::size_t parts) {
  const auto rows = table.rows();
  if (rows <= parts) return table;
  Table result = empty_like(table);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    for (std::size_t part = 0; part < parts; ++part) {
      result.columns[i].values.push_back(
          mean(table.columns[i].values, rows * part / parts, rows * (part + 1) / parts));
    }
  }
  return result;
}

nlohmann::json table_json(const Table& table, std::size_t rows_of_all) {
  nlohmann::json columns = nlohmann::json::object();
  for (const auto& column : table.columns) columns[column.name] = column.values;
  return {{"rows", rows_of_all}, {"columns", columns}};
}

}  // namespace tg
