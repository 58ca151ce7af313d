#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tg {

// ROOT/finished.json: the run of these checkpoints reached one of its limits at `step` and
// completed its results.
struct Finished {
  std::int64_t step = 0;
  std::int64_t iterations = 0;
  double max_wallclock_seconds = 0;
};

// Creates ROOT if it is missing. Throws Error: cannot_create, io.
void write_finished(const std::string& root, const Finished& finished);
// Returns nothing if there is no such file. Throws Error: bad_data, io.
std::optional<Finished> read_finished(const std::string& root);
// Does nothing if there is no such file. Throws Error(io).
void remove_finished(const std::string& root);

}  // namespace tg
