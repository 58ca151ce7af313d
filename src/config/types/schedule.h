#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tg {

// Progress of a run.
struct RunProgress {
  std::int64_t step = 0;  // steps done
  double share = 0;       // of the run, [0, 1]
};

// A value that changes while a run goes on. As text "98304,393216@0.3,786432@5000": the first from
// the beginning; each of the others from a step on or, below 1, from a fraction of the run on.
template <class T>
class Schedule {
 public:
  struct Stage {
    T value{};
    double from = 0;

    bool is_share() const { return from < 1; }
    bool begun(const RunProgress& progress) const {
      return (is_share() ? progress.share : static_cast<double>(progress.step)) >= from;
    }
    bool operator==(const Stage&) const = default;
  };

  Schedule(T value = {}) : stages_{{std::move(value), 0}} {}
  // Precondition: the first stage begins at 0; the fractions and the steps of the others rise.
  explicit Schedule(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  const std::vector<Stage>& stages() const { return stages_; }
  bool constant() const { return stages_.size() == 1; }
  const T& first() const { return stages_.front().value; }
  const T& last() const { return stages_.back().value; }
  T largest() const {
    return std::max_element(stages_.begin(), stages_.end(),
                            [](const Stage& a, const Stage& b) { return a.value < b.value; })
        ->value;
  }
  // Index of the stage in force.
  std::size_t stage_at(const RunProgress& progress) const {
    const auto begun = std::find_if(stages_.rbegin(), stages_.rend(),
                                    [&](const Stage& stage) { return stage.begun(progress); });
    return static_cast<std::size_t>(stages_.rend() - begun) - 1;
  }
  const T& at(const RunProgress& progress) const { return stages_[stage_at(progress)].value; }

  bool operator==(const Schedule&) const = default;

 private:
  std::vector<Stage> stages_;
};

using CountSchedule = Schedule<std::int64_t>;
using NumberSchedule = Schedule<double>;

// A number that changes linearly within a stage, from its first step to the next stage's. As text
// "0.25:0", or "0.25" if it is constant.
struct Ramp {
  double from = 0, to = 0;

  double at(double place) const { return from + (to - from) * place; }
  bool operator==(const Ramp&) const = default;
};
// Numbers that change together, "1/0.5:0".
using Ramps = std::vector<Ramp>;
using RampSchedule = Schedule<Ramps>;

// Returns a schedule's numbers after `progress` in a run of `steps`. A ramp ends where the next
// stage begins, or with the run.
std::vector<double> ramps_at(const RampSchedule& schedule, const RunProgress& progress,
                             std::int64_t steps);

}  // namespace tg
