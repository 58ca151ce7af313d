#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// The HTML file of these runs (an array of read_run()'s objects): style, script and numbers in one,
// without anything from a network. Text of the runs cannot become markup.
std::string report_page(const nlohmann::json& runs);

}  // namespace tg
