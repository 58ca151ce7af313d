#include "report/run_follower.h"

#include "base/error.h"

namespace tg {

// Begins anew. → whether both files are there.
bool RunFollower::open() {
  reader_.reset();
  events_ = {};
  error_.clear();
  try {
    reader_.emplace(path_.metrics, LastLine::growing);
    config_ = read_run_config(path_);
  } catch (const Error& error) {
    reader_.reset();
    if (error.exit_code() != ExitCode::missing_input) throw;
  }
  return reader_.has_value();
}

bool RunFollower::read(std::uint64_t most_bytes) {
  const auto from = reader_->position();
  behind_ = false;
  while (const auto event = reader_->next()) {
    events_.add(*event, reader_->place());
    behind_ = reader_->position() - from >= most_bytes;
    if (behind_) break;
  }
  bytes_ = reader_->position() - from;
  return bytes_ > 0;
}

bool RunFollower::follow(std::uint64_t most_bytes) {
  const auto error_before = error_;
  bytes_ = 0;
  bool changed = false;
  try {
    if (!reader_ || !reader_->grow()) {
      changed = reader_.has_value();
      if (!open()) return changed;
    }
    if (error_.empty()) changed |= read(most_bytes);
  } catch (const Error& error) {
    error_ = error.what();
  }
  return changed || error_ != error_before;
}

nlohmann::json RunFollower::record() const {
  auto run = config_;
  events_.write_to(run);
  return run;
}

}  // namespace tg
