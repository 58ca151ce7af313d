#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tg {

// ROOT/finished.json: the run of these checkpoints ended at `step`, having reached one of its
// limits.
struct Finished {
  std::int64_t step = 0;
  std::int64_t iterations = 0;
  double max_wallclock_seconds = 0;
};

// Creates ROOT where it is missing. Errors: cannot_create, io.
void write_finished(const std::string& root, const Finished& finished);
// Nothing where there is no such file. Errors: bad_data, io.
std::optional<Finished> read_finished(const std::string& root);
// No error where there is no such file. Errors: io.
void remove_finished(const std::string& root);

}  // namespace tg
