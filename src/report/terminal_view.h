#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// A run of read_run() as text for a terminal of so many characters: what it does, how far it is,
// its losses as a curve, rate, time left while it trains, phases, its last warning, and why it
// stopped. Lines end with '\n'.
std::string terminal_view(const nlohmann::json& run, std::size_t columns, std::size_t rows);

}  // namespace tg
