#pragma once
// Runs CUDA device code on the CPU, for tests; included before each kernel file, which translate.py
// has converted to C++. The threads of a block are fibers of one thread, which run until they wait
// at a barrier, an mbarrier or a warp collective. Blocks run one after the other, in cooperative
// launches concurrently. Emulates what the kernels use: indices, shared memory, barriers, full-warp
// collectives and arithmetic, but not memory ordering.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#undef __shared__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __grid_constant__
#define __shared__ static  // the blocks run one after the other, in one thread
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

namespace emulation {

// Indices of the running thread.
extern uint3 thread_index, block_index;
extern dim3 block_dim, grid_dim;
constexpr std::size_t kSharedBytes = 256 << 10;
extern unsigned char* dynamic_shared;

// Runs `work` as `count` threads of a block of block_dim, from thread `first` on, in each of
// `blocks` concurrent blocks from block_index on. Aborts with a message on a deadlock.
void run_threads(int first, int count, const std::function<void()>& work, unsigned blocks = 1);
template <class Kernel, class... Args>
void launch(Kernel kernel, dim3 grid, dim3 block, Args... args) {
  grid_dim = grid, block_dim = block;
  for (unsigned i = 0; i < grid.x * grid.y * grid.z; ++i) {
    block_index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
    run_threads(0, static_cast<int>(block.x * block.y), [&] { kernel(args...); });
  }
}
// For kernels whose blocks wait for each other; they have no static shared memory.
template <class Kernel, class... Args>
void launch_together(Kernel kernel, unsigned blocks, unsigned threads, Args... args) {
  grid_dim = dim3(blocks), block_dim = dim3(threads), block_index = {};
  run_threads(
      0, static_cast<int>(threads), [&] { kernel(args...); }, blocks);
}

void wait_for_block();
// Lets other threads run first.
void yield();
// Waits for all lanes of the warp and returns the bits of lane `from`, which may differ between
// lanes.
std::uint32_t exchange(std::uint32_t bits, unsigned from);
unsigned lane();
template <class T>
T shuffle(T value, unsigned from) {
  static_assert(sizeof(T) == sizeof(std::uint32_t));
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = exchange(bits, from);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
[[noreturn]] void fail(const char* what);

}  // namespace emulation

#define threadIdx (emulation::thread_index)
#define blockIdx (emulation::block_index)
#define blockDim (emulation::block_dim)
#define gridDim (emulation::grid_dim)

// The kernels use only masks that name all lanes.
inline void __syncthreads() {
  emulation::wait_for_block();
}
inline void __syncwarp() {
  emulation::exchange(0, 0);
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return emulation::shuffle(value, static_cast<unsigned>(from) % 32);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned bits) {
  return emulation::shuffle(value, emulation::lane() ^ bits);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  for (unsigned bit = 16; bit > 0; bit /= 2)
    value = std::max(value, __shfl_xor_sync(mask, value, bit));
  return value;
}
inline unsigned atomicMax(unsigned* at, unsigned value) {
  return std::exchange(*at, std::max(*at, value));
}

template <class T>
void __stwb(T* at, T value) {
  const auto* const byte = reinterpret_cast<unsigned char*>(at);
  if (byte >= emulation::dynamic_shared &&
      byte < emulation::dynamic_shared + emulation::kSharedBytes)
    emulation::fail("an instruction of global memory at an address in shared memory");
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) != 0) emulation::fail("a misaligned store");
  *at = value;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const auto bytes = low | std::uint64_t{high} << 32;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i)
    out |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << bits >> 32);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
// Rounded separately, although the compiler would contract it to an FMA.
inline float __fmul_rn(float a, float b) {
  float product = a * b;
  asm("" : "+x"(product));
  return product;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline float max_or_nan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
}
inline float min_or_nan_of(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
}
using std::max;
using std::min;

// The runtime functions that launchers call: a GPU with one block per multiprocessor, otherwise
// like Hopper.
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int, std::size_t) {
  *blocks = 1;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t emulated_get_device(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t emulated_get_attribute(int* value, cudaDeviceAttr, int) {
  *value = emulation::kSharedBytes;
  return cudaSuccess;
}
#define cudaGetDevice emulated_get_device
#define cudaDeviceGetAttribute emulated_get_attribute
