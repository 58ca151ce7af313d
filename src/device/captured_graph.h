#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/gpu_graphs.h"

namespace tg {

// Work in parts that runs repeatedly, in the same order and on the same tensors of `device`, as
// CUDA graphs if `graphs` is set and the device is a GPU. The first run is eager, since it chooses
// plans and allocates persistent tensors; the second captures the parts; later runs replay them,
// without their host code. If capture fails, logs a warning with the reason, and every run is
// eager.
//
// The work may have several forms, such as the stages of a run. Each is captured once and kept. All
// captures share one memory pool, and only one runs at a time, so intermediate tensors overlap: the
// memory of all forms is the maximum, not the sum, plus the graphs' nodes. A form's eager run
// allocates outside the pool. The parts must write their results to tensors that exist before,
// since a replay assigns no member.
class CapturedGraph {
 public:
  using Part = std::function<void()>;
  // `name`: name of the work in the warning, such as "the step".
  CapturedGraph(std::string name, std::vector<Part> parts, at::Device device, bool graphs)
      : name_(std::move(name)),
        parts_(std::move(parts)),
        uses_graphs_(graphs && device.is_cuda()) {}

  // False: every run is eager, and its tensors may differ from the previous run's.
  bool uses_graphs() const { return uses_graphs_; }
  // Selects the form of later runs; initially 0. Call it between runs.
  void select(std::int64_t form) { selected_ = form; }
  void run(std::size_t part);
  // Call it when the parts no longer match what was captured: the next run of each form is eager,
  // and the one after it captures. For permanent changes, such as of the batches' shape or when QAT
  // begins, whose captures a new form would keep needlessly.
  void invalidate() { forms_.clear(); }
  // Number of captures of all forms so far.
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
