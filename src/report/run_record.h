#pragma once
// The fields of a run's config.json, in the form that the page shows.
#include <nlohmann/json.hpp>
#include <string>

namespace tg {

// The files of a run.
struct RunPath {
  std::string metrics;  // metrics.jsonl
  std::string config;   // config.json
};

// Returns the fields of config.json that read_run() lists, and "path". Throws Error: missing_input,
// io; bad_data, naming the file.
nlohmann::json read_run_config(const RunPath& path);

// Renames runs (read_run()'s objects) that share a name to their paths.
void tell_apart(nlohmann::json& runs);

}  // namespace tg
