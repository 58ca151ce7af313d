#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// Returns a self-contained HTML file of these runs (an array of read_run()'s objects), which loads
// nothing from a network. Text of the runs is escaped.
std::string report_page(const nlohmann::json& runs);
// Returns the page that polls its server for changes. `state`: the JSON of ServedRuns' changes(0);
// GET /changes?token=TOKEN&since=VERSION returns later changes. The page takes the token from its
// own URL.
std::string live_report_page(const nlohmann::json& state);

}  // namespace tg
