#include "report/table.h"

#include <cassert>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/is_in.h"

namespace tg {
namespace {

// `name_of(i)`: name of column i.
nlohmann::json table_json(std::size_t columns, auto&& name_of, const std::vector<Row>& rows,
                          std::size_t added_rows) {
  nlohmann::json object = nlohmann::json::object();
  for (std::size_t i = 0; i < columns; ++i) {
    auto& values = object[name_of(i)] = nlohmann::json::array();
    for (const auto& row : rows) values.push_back(row[i]);
  }
  return {{"rows", added_rows}, {"columns", std::move(object)}};
}

}  // namespace

// Removing the other rows early is exact: a part's later extremes are among its present extremes
// and later rows.
void ThinnedTable::keep_extremes(Part& part) const {
  std::vector<std::size_t> kept;  // numbers of rows
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    if (!columns_[column].extremes) continue;
    const NumberedRow *least = nullptr, *greatest = nullptr, *missing = nullptr;
    for (const auto& row : part) {
      const double value = row.values[column];
      if (std::isnan(value)) {
        if (missing == nullptr) missing = &row;
      } else {
        if (least == nullptr || value < least->values[column]) least = &row;
        if (greatest == nullptr || value > greatest->values[column]) greatest = &row;
      }
    }
    for (const auto* row : {least, greatest, missing}) {
      if (row != nullptr) kept.push_back(row->number);
    }
  }
  std::erase_if(part, [&](const NumberedRow& row) { return !is_in(kept, row.number); });
}

void ThinnedTable::add_row(Row row) {
  assert(row.size() == columns_.size());
  const auto number = rows();
  auto& part = parts_.of_next_row([&](Part& into, Part&& from) {
    for (auto& one : from) into.push_back(std::move(one));
    keep_extremes(into);
  });
  last_ = {number, row};
  if (number == 0) first_ = last_;
  part.push_back({number, std::move(row)});
  keep_extremes(part);
}

std::vector<Row> ThinnedTable::kept() const {
  std::vector<Row> result;
  if (rows() == 0) return result;
  const auto& first = parts_.begin()->front();
  if (first.number != first_.number) result.push_back(first_.values);
  for (const auto& part : parts_) {
    for (const auto& row : part) result.push_back(row.values);
  }
  if ((parts_.end() - 1)->back().number != last_.number) result.push_back(last_.values);
  return result;
}

nlohmann::json ThinnedTable::json(const std::vector<Row>& kept) const {
  return table_json(
      columns_.size(), [&](std::size_t i) { return columns_[i].name; }, kept, rows());
}

void AveragedTable::add_row(const Row& row) {
  assert(row.size() == columns_.size());
  auto& part = parts_.of_next_row([](Part& into, Part&& from) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i].sum += from[i].sum;
      into[i].count += from[i].count;
    }
  });
  part.resize(columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) continue;
    part[i].sum += row[i];
    ++part[i].count;
  }
}

nlohmann::json AveragedTable::json() const {
  std::vector<Row> means;
  for (const auto& part : parts_) {
    auto& row = means.emplace_back();
    for (const auto& mean : part) {
      row.push_back(mean.count == 0 ? std::nan("") : mean.sum / static_cast<double>(mean.count));
    }
  }
  return table_json(
      columns_.size(), [&](std::size_t i) { return columns_[i]; }, means, rows());
}

}  // namespace tg
