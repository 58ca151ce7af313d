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

// A count that changes while a run goes on. As text "98304,393216@0.3,786432@5000": the first from
// the beginning; each of the others from a step on or, below 1, from a fraction of the run on.
class CountSchedule {
 public:
  struct Stage {
    std::int64_t count = 0;
    double from = 0;

    bool is_share() const { return from < 1; }
    bool begun(const RunProgress& progress) const {
      return (is_share() ? progress.share : static_cast<double>(progress.step)) >= from;
    }
    bool operator==(const Stage&) const = default;
  };

  CountSchedule(std::int64_t count = 0) : stages_{{count, 0}} {}
  // Precondition: the first stage begins at 0; the fractions and the steps of the others rise.
  explicit CountSchedule(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  const std::vector<Stage>& stages() const { return stages_; }
  bool constant() const { return stages_.size() == 1; }
  std::int64_t first() const { return stages_.front().count; }
  std::int64_t last() const { return stages_.back().count; }
  std::int64_t largest() const {
    return std::max_element(stages_.begin(), stages_.end(),
                            [](const Stage& a, const Stage& b) { return a.count < b.count; })
        ->count;
  }
  std::int64_t at(const RunProgress& progress) const {
    const auto begun = std::find_if(stages_.rbegin(), stages_.rend(),
                                    [&](const Stage& stage) { return stage.begun(progress); });
    return begun->count;
  }

  bool operator==(const CountSchedule&) const = default;

 private:
  std::vector<Stage> stages_;
};

}  // namespace tg
