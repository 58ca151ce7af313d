#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// The HTML file of these runs (an array of read_run()'s objects): style, script and numbers in one,
// without anything from a network. Text of the runs cannot become markup.
std::string report_page(const nlohmann::json& runs);
// Returns the page that asks its server for changes: `state` is ServedRuns' answer to changes(0),
// and GET /changes?token=TOKEN&since=VERSION has the following ones; the page takes the token from
// its own address.
std::string live_report_page(const nlohmann::json& state);

}  // namespace tg
