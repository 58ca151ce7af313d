#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace tg {

// A curve as text, in Unicode's braille patterns: `columns` by `rows` characters of 2 x 4 dots,
// with the scale of y at the left, at most columns + 10 characters a line. x ascends; a y that is
// not finite is skipped. The scale leaves out the highest hundredth of the values, which are drawn
// at the top: a first step's loss would flatten all others. → the lines, without their ends; none
// where there is no value.
std::vector<std::string> terminal_chart(const std::vector<double>& x, const std::vector<double>& y,
                                        std::size_t columns, std::size_t rows);

}  // namespace tg
