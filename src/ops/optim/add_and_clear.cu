#include "ops/optim/chunks.cuh"
#include "ops/optim/optim_kernels.h"

namespace tg::cuda {

namespace {

template <typename To, typename From>
__global__ void __launch_bounds__(kChunkThreads) add_and_clear_kernel(AddAndClear args) {
  const bool adds = args.skip == nullptr || *args.skip == 0;
  auto* const to = static_cast<To*>(args.to);
  auto* const from = static_cast<From*>(args.from);
  for_each_chunk(args.count, [&](std::int64_t first) {
    const auto added = load_chunk(from, first, args.count);
    unsigned bits = 0;
#pragma unroll
    for (const unsigned word : added.words) bits |= word;
    if (bits == 0) return;
    if (adds) {
      const auto before = load_chunk(static_cast<const To*>(to), first, args.count);
      float sums[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[i] = before[i] + added[i];
      store_chunk(to, Pack<To, kChunk>::rounded(sums), first, args.count);
    }
    store_chunk(from, Pack<From, kChunk>{}, first, args.count);
  });
}

}  // namespace

void add_and_clear(const AddAndClear& args, Dtype to_dtype, Dtype from_dtype, Stream stream) {
  dispatch(to_dtype, from_dtype, [&](auto to, auto from) {
    launch_chunks(add_and_clear_kernel<decltype(to), decltype(from)>, args, "add_and_clear",
                  stream);
  });
}

}  // namespace tg::cuda
