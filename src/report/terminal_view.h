#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// Returns a view of a run, read_run()'s object, for a terminal of that size: its state and
// progress, its losses as a curve, rate, time left while it trains, phases, last warning, and why
// it stopped. Lines end with '\n'.
std::string terminal_view(const nlohmann::json& run, std::size_t columns, std::size_t rows);

}  // namespace tg
