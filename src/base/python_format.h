#pragma once
// Formats numbers as Python prints them, since log lines are parsed by scripts written for Python's
// logs.
#include <cstdint>
#include <string>
#include <vector>

namespace tg {

std::string py_repr(double value);  // shortest that round-trips: 0.0, 0.025, 1e-08, 600.0
std::string py_repr(bool value);    // True, False
std::string py_repr(const std::vector<std::int64_t>& values);  // [7, 8]

}  // namespace tg
