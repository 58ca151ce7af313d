#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tg {

// Returns a view of a run, read_run()'s object, for a terminal of that size: its state and
// progress, its losses as a curve, rate, time left while it trains, phases, last warning, and why
// it stopped. Lines end with '\n'.
std::string terminal_view(const nlohmann::json& run, std::size_t columns, std::size_t rows);

// Returns the lines of a curve as text, in Unicode's braille patterns: `columns` by `rows`
// characters of 2 x 4 dots, with the scale of y at the left, at most columns + 10 characters a
// line. x ascends; non-finite y are skipped. The highest 1% of the values are clipped to the top,
// since the first steps' loss would flatten the curve. Returns no lines if there is no value.
std::vector<std::string> terminal_chart(const std::vector<double>& x, const std::vector<double>& y,
                                        std::size_t columns, std::size_t rows);

}  // namespace tg
