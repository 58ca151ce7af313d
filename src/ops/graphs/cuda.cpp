#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <list>

#include "base/first_line.h"
#include "ops/gpu_graphs.h"

namespace tg {

struct GpuGraphs::Recording {
  std::shared_ptr<const at::cuda::MempoolId_t> pool;
  std::list<at::cuda::CUDAGraph> parts;  // which neither copy nor move
};

GpuGraphs::GpuGraphs() = default;
GpuGraphs::~GpuGraphs() = default;

namespace {

// That of all recordings while there are any: torch ends a pool with its last graph.
std::shared_ptr<const at::cuda::MempoolId_t> shared_pool() {
  static std::weak_ptr<const at::cuda::MempoolId_t> current;
  auto pool = current.lock();
  if (!pool) {
    pool = std::make_shared<const at::cuda::MempoolId_t>(at::cuda::graph_pool_handle());
    current = pool;
  }
  return pool;
}

// Ends a capture whose part has thrown. A capture that CUDA has given up cannot be ended: torch
// then leaves the allocator as if it went on, and nothing that is freed would be used again.
void abandon(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool) {
  using namespace c10::cuda::CUDACachingAllocator;
  try {
    graph.capture_end();
    return;
  } catch (const std::exception&) {
    (void)cudaGetLastError();
  }
  try {
    const auto device = c10::cuda::current_device();
    endAllocateToPool(device, pool);
    releasePool(device, pool);
  } catch (const std::exception&) {
    // It had been ended.
  }
}

void capture(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool,
             const std::function<void()>& part) {
  // Of this thread only: the loader's threads and the collectives' call CUDA as well.
  graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    part();
  } catch (const std::exception&) {
    abandon(graph, pool);
    throw;
  }
  graph.capture_end();
}

}  // namespace

std::string GpuGraphs::record(const std::vector<std::function<void()>>& parts) {
  // The graphs have memory of their own: what the runs before left cached would be held twice.
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto recording = std::make_unique<Recording>();
  recording->pool = shared_pool();
  try {
    for (const auto& part : parts) capture(recording->parts.emplace_back(), *recording->pool, part);
  } catch (const std::exception& error) {
    return std::string(first_line(error.what()));
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
