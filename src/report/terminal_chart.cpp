#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "report/terminal_view.h"

namespace tg {
namespace {

constexpr std::size_t kDotColumns = 2, kDotRows = 4;  // dots per character

constexpr std::size_t kLabel = 8;

// Returns a number in as many digits, up to four, as fit in a label.
std::string label_of(double value) {
  std::string text;
  for (int digits = 4; digits > 0; --digits) {
    text = fmt::format("{:.{}g}", value, digits);
    if (text.size() <= kLabel) break;
  }
  return text;
}

struct Scale {
  double low, high;

  // Returns 0 for high, rows - 1 for low.
  std::size_t row_of(double y, std::size_t rows) const {
    const double fraction = high > low ? (high - std::clamp(y, low, high)) / (high - low) : 0.5;
    return static_cast<std::size_t>(std::lround(fraction * static_cast<double>(rows - 1)));
  }
};

std::optional<Scale> scale_of(std::vector<double> y) {
  std::erase_if(y, [](double value) { return !std::isfinite(value); });
  if (y.empty()) return {};
  std::ranges::sort(y);
  return Scale{y.front(), y[((y.size() - 1) * 99 + 99) / 100]};
}

// Interpolates NaNs between two values linearly.
void interpolate(std::vector<double>& y) {
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    for (auto j = before.value_or(i) + 1; j < i; ++j) {
      const double fraction = static_cast<double>(j - *before) / static_cast<double>(i - *before);
      y[j] = std::lerp(y[*before], y[i], fraction);
    }
    before = i;
  }
}

// Returns the mean of y in each of `columns` equal intervals of x; empty intervals are
// interpolated.
std::vector<double> means_of_columns(const std::vector<double>& x, const std::vector<double>& y,
                                     std::size_t columns) {
  const double width = std::max(x.back() - x.front(), 1e-9);
  std::vector<double> sums(columns), counts(columns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    const double fraction = (x[i] - x.front()) / width;
    const auto column =
        std::min(static_cast<std::size_t>(fraction * static_cast<double>(columns)), columns - 1);
    sums[column] += y[i];
    counts[column] += 1;
  }
  for (std::size_t i = 0; i < columns; ++i) sums[i] /= counts[i];
  interpolate(sums);
  return sums;
}

class Dots {
 public:
  Dots(std::size_t columns, std::size_t rows)
      : columns_(columns), rows_(rows), bits_(columns * rows) {}

  std::size_t rows() const { return rows_ * kDotRows; }

  void set(std::size_t x, std::size_t y) {
    // Unicode's order of a cell's dots: columns of three, then the last row.
    constexpr unsigned char kBits[kDotRows][kDotColumns] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    bits_[y / kDotRows * columns_ + x / kDotColumns] |= kBits[y % kDotRows][x % kDotColumns];
  }
  std::string line(std::size_t row) const {
    std::string text;
    for (std::size_t x = 0; x < columns_; ++x)
      append_utf8(text, U'\u2800' + bits_[row * columns_ + x]);
    return text;
  }

 private:
  std::size_t columns_, rows_;
  std::vector<unsigned char> bits_;
};

// Draws the values; a vertical line joins each to the previous one.
void draw(const std::vector<double>& y, const Scale& scale, Dots& dots) {
  std::optional<std::size_t> before;
  for (std::size_t x = 0; x < y.size(); ++x) {
    if (!std::isfinite(y[x])) continue;
    const auto row = scale.row_of(y[x], dots.rows());
    const auto [first, last] = std::minmax({row, before.value_or(row)});
    for (auto dot = first; dot <= last; ++dot) dots.set(x, dot);
    before = row;
  }
}

}  // namespace

std::vector<std::string> terminal_chart(const std::vector<double>& x, const std::vector<double>& y,
                                        std::size_t columns, std::size_t rows) {
  const auto scale = scale_of(y);
  if (!scale || columns == 0 || rows == 0) return {};
  Dots dots(columns, rows);
  draw(means_of_columns(x, y, columns * kDotColumns), *scale, dots);
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto label = row == 0          ? label_of(scale->high)
                       : row + 1 == rows ? label_of(scale->low)
                                         : "";
    lines.push_back(fmt::format("{:>{}} │{}", label, kLabel, dots.line(row)));
  }
  return lines;
}

}  // namespace tg
