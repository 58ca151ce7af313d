#pragma once
// Implemented in cuda/, or in no_cuda/ where the program was built without: nothing is recorded
// then.
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tg {

// Work of the current GPU in parts, recorded once as CUDA graphs and replayed from then on, without
// the host's launches between kernels. All recordings of a process share memory: a replay may
// overwrite what the replay of a later recording has left. Copy that before anything else is
// replayed.
class GpuGraphs {
 public:
  GpuGraphs();
  ~GpuGraphs();

  // Runs the parts in order, but nothing on the GPU: what they launch on the current stream, which
  // is not the default one, is recorded. They must have run before, so that what is made at the
  // first run (plans, workspaces) is there.
  // → empty, or why it could not be; then nothing is recorded.
  std::string record(const std::vector<std::function<void()>>& parts);
  bool recorded() const;
  // In the order of recording; on the current stream.
  void replay(std::size_t part);
  void forget();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace tg
