#include "device/gpu_graphs.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <list>

#include "base/first_line.h"

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

bool succeeds(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// Ends a capture that has failed. One that CUDA has given up cannot be ended: torch then leaves its
// allocators as if it went on, and holding the pool for a graph that will never release it. (Its
// generator of random numbers, too; none is drawn on a GPU here.)
void abandon(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool) {
  if (succeeds([&] { graph.capture_end(); })) return;  // the graph releases the pool
  (void)cudaGetLastError();
  // An allocator that has nothing to end does not hold the pool for this graph: no release there.
  succeeds([&] {
    using namespace c10::cuda::CUDACachingAllocator;
    const auto device = c10::cuda::current_device();
    endAllocateToPool(device, pool);
    releasePool(device, pool);
  });
  succeeds([&] {
    auto* pinned = at::getHostAllocator(at::kCUDA);
    pinned->end_allocate_to_pool(pool);
    pinned->release_pool(pool);
  });
}

void capture(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool,
             const std::function<void()>& part) {
  try {
    // Of this thread only: the loader's threads and the collectives' call CUDA as well.
    graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    part();
    graph.capture_end();
  } catch (const std::exception&) {
    abandon(graph, pool);
    throw;
  }
  // Where this fails the capture has ended, and the graph itself leaves nothing behind.
  graph.instantiate();
}

}  // namespace

std::string GpuGraphs::record(const std::vector<std::function<void()>>& parts) {
  // The graphs have memory of their own: what the runs before left cached would be held twice.
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto recording = std::make_unique<Recording>();
  recording->pool = shared_pool();
  try {
    // Kept graphs are instantiated apart from the end of their capture: so are the failures.
    for (const auto& part : parts) {
      capture(recording->parts.emplace_back(/*keep_graph=*/true), *recording->pool, part);
    }
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
