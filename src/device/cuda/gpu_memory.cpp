#include "device/gpu_memory.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>

#include "base/error.h"

namespace tg {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::int64_t limit = 0;  // 0: none
MemoryPeak earlier;      // peak before the last reset of the allocator's statistics

c10::CachingDeviceAllocator::DeviceStats stats() {
  return allocator::getDeviceStats(c10::cuda::current_device());
}
// Index 0 aggregates all pools.
MemoryPeak peak_since_reset() {
  const auto now = stats();
  return {now.allocated_bytes[0].peak, now.reserved_bytes[0].peak};
}

struct Memory {
  std::int64_t total;    // of the device
  std::int64_t outside;  // in use, but not by this process's allocator
};
Memory measure() {
  const auto [free, total] = allocator::get()->getMemoryInfo(c10::cuda::current_device());
  const auto used = static_cast<std::int64_t>(total) - static_cast<std::int64_t>(free);
  return {static_cast<std::int64_t>(total), used - stats().reserved_bytes[0].current};
}

std::int64_t usable(const Memory& memory) {
  return (limit > 0 ? std::min(limit, memory.total) : memory.total) - memory.outside;
}

void bound_allocator(std::int64_t bytes) {
  const auto memory_fraction = static_cast<double>(bytes) / static_cast<double>(measure().total);
  allocator::setMemoryFraction(std::clamp(memory_fraction, 0.0, 1.0), c10::cuda::current_device());
}

}  // namespace

MemoryPeak gpu_memory_peak() {
  const auto later = peak_since_reset();
  return {std::max(earlier.allocated, later.allocated), std::max(earlier.reserved, later.reserved)};
}

void limit_gpu_memory(std::int64_t bytes) {
  at::globalContext().lazyInitDevice(at::kCUDA);  // the allocator, and the CUDA context
  limit = bytes;
  const auto memory = measure();
  REQUIRE(usable(memory) > 0, ExitCode::usage,
          "MEMORY_LIMIT_GB={:.3g}: before training begins {:.3g} GiB of the GPU are in use, by its "
          "CUDA context or by other processes (expected a limit above that); raise it, or set 0 "
          "for none",
          static_cast<double>(bytes) / kGiB, static_cast<double>(memory.outside) / kGiB);
  bound_allocator(usable(memory));
}

void free_cached_gpu_memory() {
  allocator::emptyCache();
}

std::int64_t usable_gpu_memory() {
  return usable(measure());
}

GpuMemoryTrial::GpuMemoryTrial(std::int64_t spare) {
  earlier = gpu_memory_peak();
  allocator::emptyCache();
  allocator::resetPeakStats(c10::cuda::current_device());
  before_ = stats().reserved_bytes[0].current;
  bound_allocator(usable_gpu_memory() - spare);
}

GpuMemoryTrial::~GpuMemoryTrial() {
  try {
    bound_allocator(limit > 0 ? usable_gpu_memory() : measure().total);
  } catch (const std::exception&) {
    // The GPU has failed for good: the error that ended the trial, or its next use, reports it.
  }
}

std::int64_t GpuMemoryTrial::peak() const {
  return peak_since_reset().reserved;
}

}  // namespace tg
