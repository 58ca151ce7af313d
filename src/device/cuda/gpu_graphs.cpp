#include "device/gpu_graphs.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <list>

#include "base/strings.h"

namespace tg {

struct GpuGraphs::Graphs {
  std::shared_ptr<const at::cuda::MempoolId_t> pool;
  std::list<at::cuda::CUDAGraph> parts;  // a list, since CUDAGraph is neither copyable nor movable
};

GpuGraphs::GpuGraphs() = default;
GpuGraphs::~GpuGraphs() = default;

namespace {

// The pool that all existing graphs share; torch frees a pool with its last graph.
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

// Ends a failed capture. If CUDA has invalidated the capture, capture_end() throws and leaves
// torch's allocators in capture mode, with a reference to the pool that the graph never releases;
// this restores them. (The random number generator stays in capture mode; GPU work here uses none.)
void abandon(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool) {
  if (succeeds([&] { graph.capture_end(); })) return;  // the graph releases the pool
  (void)cudaGetLastError();
  // endAllocateToPool throws if the allocator had not begun; then there is no reference to release.
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

void capture_part(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool,
                  const std::function<void()>& part) {
  try {
    // Thread-local, since the loader's and the collectives' threads call CUDA as well.
    graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    part();
    graph.capture_end();
  } catch (const std::exception&) {
    abandon(graph, pool);
    throw;
  }
  // If this throws, the capture has ended and the graph's destructor cleans up.
  graph.instantiate();
}

}  // namespace

std::string GpuGraphs::capture(const std::vector<std::function<void()>>& parts) {
  // The graphs allocate from their own pool: frees what eager runs left in the cache.
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto graphs = std::make_unique<Graphs>();
  graphs->pool = shared_pool();
  try {
    // keep_graph separates instantiate() from capture_end(), and so their errors.
    for (const auto& part : parts) {
      capture_part(graphs->parts.emplace_back(/*keep_graph=*/true), *graphs->pool, part);
    }
  } catch (const std::exception& error) {
    return std::string(first_line(error.what()));
  }
  graphs_ = std::move(graphs);
  return "";
}

void GpuGraphs::replay(std::size_t part) {
  std::next(graphs_->parts.begin(), static_cast<std::ptrdiff_t>(part))->replay();
}

void GpuGraphs::invalidate() {
  graphs_.reset();
}

}  // namespace tg
