#include "train/gpu_graphs.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <list>

namespace tg {

struct GpuGraphs::Recording {
  std::list<at::cuda::CUDAGraph> parts;  // which neither copy nor move
};

GpuGraphs::GpuGraphs() = default;
GpuGraphs::~GpuGraphs() = default;

std::string GpuGraphs::record(const std::vector<std::function<void()>>& parts) {
  // The graphs have memory of their own: what the runs before left cached would be held twice.
  c10::cuda::CUDACachingAllocator::emptyCache();
  const auto pool = at::cuda::graph_pool_handle();
  auto recording = std::make_unique<Recording>();
  try {
    for (const auto& part : parts) {
      auto& graph = recording->parts.emplace_back();
      // Of this thread only: the loader's threads and the collectives' call CUDA as well.
      graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      try {
        part();
      } catch (...) {
        graph.capture_end();
        throw;
      }
      graph.capture_end();
    }
  } catch (const std::exception& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  recording_ = std::move(recording);
  return "";
}

bool GpuGraphs::recorded() const {
  return recording_ != nullptr;
}

void GpuGraphs::replay(std::size_t part) {
  std::next(recording_->parts.begin(), static_cast<std::ptrdiff_t>(part))->replay();
}

void GpuGraphs::forget() {
  recording_.reset();
}

}  // namespace tg
