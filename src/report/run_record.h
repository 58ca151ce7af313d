#pragma once
// What a run's config.json says, in the form that the page draws.
#include <nlohmann/json.hpp>
#include <string>

namespace tg {

// The files of a run.
struct RunPath {
  std::string metrics;  // metrics.jsonl
  std::string config;   // config.json
};

// The fields of config.json (read_run() lists them), and "path". Errors: missing_input, io;
// bad_data, naming the file.
nlohmann::json read_run_config(const RunPath& path);

// Runs (objects of read_run()) of the same name are called by their files.
void tell_apart(nlohmann::json& runs);

}  // namespace tg
