#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "device/gpu_graphs.h"

namespace tg {

// Work in parts that runs repeatedly, each time in order and on the same tensors of `device`, as
// CUDA graphs if `graphs` is set and the device is a GPU. The first run is eager, since it chooses
// plans and allocates persistent tensors; the second captures the parts; from then on they are
// replayed, without what they do on the host. If capture fails, a warning says why and every run is
// eager.
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
  void run(std::size_t part);
  // Call this when the parts' work no longer equals what was captured: the next run is eager, the
  // one after it captures again.
  void invalidate();

 private:
  void capture();

  std::string name_;
  std::vector<Part> parts_;
  bool uses_graphs_;
  bool warmed_up_ = false;  // all parts have run eagerly
  GpuGraphs graphs_;
};

}  // namespace tg
