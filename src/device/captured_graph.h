#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/gpu_graphs.h"

namespace tg {

// Work in parts that runs repeatedly, each time in order and on the same tensors of `device`, as
// CUDA graphs if `graphs` is set and the device is a GPU. The first run is eager, since it chooses
// plans and allocates persistent tensors; the second captures the parts; from then on they are
// replayed, without what they do on the host. If capture fails, a warning says why and every run is
// eager.
//
// The work may have several forms, such as the stages of a run. Each is captured once and kept, so
// that one that returns is replayed. All captures are in the one memory pool, and none runs while
// another does: a second one's intermediate tensors are where the first one's are, so that it costs
// its nodes and what it is larger by. Its eager run, though, takes its memory beside the pool. What
// the parts leave for others they write to tensors that are there beforehand, since a replay
// assigns no member.
class CapturedGraph {
 public:
  using Part = std::function<void()>;
  // `name` is the work's name in the warning, such as "the step".
  CapturedGraph(std::string name, std::vector<Part> parts, at::Device device, bool graphs)
      : name_(std::move(name)),
        parts_(std::move(parts)),
        uses_graphs_(graphs && device.is_cuda()) {}

  // False: every run is eager, and its tensors may differ from the last run's.
  bool uses_graphs() const { return uses_graphs_; }
  // Between two runs: the next ones are of that form. At first it is 0.
  void select(std::int64_t form) { selected_ = form; }
  void run(std::size_t part);
  // Call this when the parts' work no longer equals what was captured: of each form the next run is
  // eager, the one after it captures again. For changes that do not return, such as of the batches'
  // shape or when QAT begins: as forms, they would be kept for nothing.
  void invalidate() { forms_.clear(); }
  // So far, of all forms.
  std::int64_t captures() const { return captures_; }

 private:
  struct Form {
    bool warmed_up = false;  // all parts have run eagerly
    GpuGraphs graphs;
  };
  void capture(Form& form);

  std::string name_;
  std::vector<Part> parts_;
  bool uses_graphs_;
  std::map<std::int64_t, Form> forms_;
  std::int64_t selected_ = 0, captures_ = 0;
};

}  // namespace tg
