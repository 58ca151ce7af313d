#pragma once
// What one run's files say, in the form that the page draws.
#include <nlohmann/json.hpp>
#include <string>

namespace tg {

// The files of a run.
struct RunPath {
  std::string metrics;  // metrics.jsonl
  std::string config;   // config.json
};

// Reads both files → an object:
//   "name" (RUN_ID), "path", "settings" and "origins" by name, "versions", "device" of config.json;
//   "train", "phases", "val": tables by step (ThinnedTable), each with "step", "ms" of training and
//     "tokens" trained on, thinned to some thousand rows;
//   "marks": [{"event", "step", "ms", "tokens", ...}], events at a step; "warnings"; "final",
//     "artifact": events, all in order; of each kind the first and the last hundred;
//   "counts": how many of these there were, by event;
//   "start", "data", "first_step", "closing", "memory": the last event of that name, if any.
// Errors: missing_input, io; bad_data, naming file and line.
nlohmann::json read_run(const RunPath& path);

// The fields of config.json alone, and "path". Errors: as read_run().
nlohmann::json read_run_config(const RunPath& path);

// Runs (objects of read_run()) of the same name are called by their files.
void tell_apart(nlohmann::json& runs);

}  // namespace tg
