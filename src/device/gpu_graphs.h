#pragma once
// Implemented in cuda/, or in no_cuda/ for a build without CUDA, where capture always fails.
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tg {

// CUDA graphs of work in parts on the current GPU: captured once, then replayed without a launch
// per kernel from the host. All GpuGraphs of a process share one memory pool: a replay may
// overwrite the results of graphs that were captured later. Copy these before anything else is
// replayed.
class GpuGraphs {
 public:
  GpuGraphs();
  ~GpuGraphs();

  // Runs the parts in order on the host and captures what they launch on the current stream, which
  // must not be the default stream; nothing runs on the GPU. The parts must have run eagerly
  // before, so that what they create once (plans, workspaces) exists. Returns an empty string, or
  // the reason for which capture failed; then nothing is captured.
  std::string capture(const std::vector<std::function<void()>>& parts);
  bool captured() const { return graphs_ != nullptr; }
  // Launches one part on the current stream. Call parts in the order of capture.
  void replay(std::size_t part);
  // Frees the graphs.
  void invalidate();

 private:
  struct Graphs;
  std::unique_ptr<Graphs> graphs_;
};

}  // namespace tg
