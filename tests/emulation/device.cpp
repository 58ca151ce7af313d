#include "tests/emulation/device.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <vector>

#include "device/gpu.h"
#include "device/launch.h"

// Pushes the callee-saved registers, stores the stack pointer in *from and continues where `to` was
// stored (System V ABI).
extern "C" void emulation_switch(void** from, void* to);
asm(R"(
.text
.globl emulation_switch
emulation_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

namespace emulation {

uint3 thread_index, block_index;
dim3 block_dim, grid_dim;
unsigned char* dynamic_shared;

namespace {

constexpr std::size_t kWarp = 32, kStackBytes = 64 << 10, kMaxThreads = 2048;

struct Fiber {
  enum State { ready, at_warp, at_block, done };
  void* stack = nullptr;  // the saved stack pointer
  uint3 index{}, block{};
  unsigned char* shared = nullptr;  // the block's dynamic_shared
  State state = ready;
  unsigned exchanges = 0;
};
std::vector<Fiber> fibers;
std::size_t running;  // index of the running fiber
void* scheduler;      // the scheduler's stack pointer
const std::function<void()>* thread_work;
// Two buffers, used alternately: a lane may write its value for the next exchange while others
// still read.
std::uint32_t brought[kMaxThreads / kWarp][2][kWarp];

void leave(Fiber::State state) {
  auto& fiber = fibers[running];
  fiber.state = state;
  emulation_switch(&fiber.stack, scheduler);
}

void run_thread() {
  (*thread_work)();
  leave(Fiber::done);
}

void* fresh_stack(std::size_t thread) {
  static std::vector<std::uint64_t> memory(kMaxThreads * kStackBytes / sizeof(std::uint64_t));
  auto* const end = memory.data() + (thread + 1) * kStackBytes / sizeof(std::uint64_t);
  auto* top = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(end) & ~63ULL);
  *--top = 0;  // a return address, which also gives a called function the required alignment
  *--top = reinterpret_cast<std::uint64_t>(&run_thread);
  for (int preserved = 0; preserved < 6; ++preserved) *--top = 0;
  return top;
}

// Makes the threads [begin, end) ready if all of them wait in `state`.
bool release(std::size_t begin, std::size_t end, Fiber::State state) {
  std::size_t waiting = 0, done = 0;
  for (auto i = begin; i < end; ++i) {
    waiting += fibers[i].state == state;
    done += fibers[i].state == Fiber::done;
  }
  if (waiting == 0 || waiting + done < end - begin) return false;
  if (state == Fiber::at_warp && done > 0) fail("a collective of a warp whose lanes have exited");
  for (auto i = begin; i < end; ++i)
    if (fibers[i].state == state) fibers[i].state = Fiber::ready;
  return true;
}

// EMULATION_SLOW_WARPS=SEED makes one warp of each block, drawn anew for each launch, run in one of
// up to 100 scheduler rounds, while all others run in every round. This finds errors that only a
// slow warp causes.
class SlowWarps {
 public:
  void draw(std::size_t blocks, std::size_t warps_of_block) {
    if (!random_) return;
    round_ = 0;
    paces_.assign(blocks * warps_of_block, 1);
    for (std::size_t block = 0; block < blocks; ++block)
      paces_[block * warps_of_block + (*random_)() % warps_of_block] = 1 + (*random_)() % 100;
  }
  void begin_round() { ++round_; }
  bool stands_still(std::size_t thread) const {
    return random_ && round_ % paces_[thread / kWarp] != 0;
  }

 private:
  static std::optional<std::minstd_rand> seeded() {
    const char* const seed = std::getenv("EMULATION_SLOW_WARPS");
    return seed ? std::optional(std::minstd_rand(static_cast<unsigned>(std::atoi(seed))))
                : std::nullopt;
  }
  std::optional<std::minstd_rand> random_ = seeded();
  std::vector<std::size_t> paces_;
  std::size_t round_ = 0;
};
SlowWarps slow_warps;

// Returns whether a thread was ready.
bool run_ready_threads() {
  bool any = false;
  slow_warps.begin_round();
  for (running = 0; running < fibers.size(); ++running) {
    if (fibers[running].state != Fiber::ready) continue;
    any = true;
    if (slow_warps.stands_still(running)) continue;
    thread_index = fibers[running].index;
    block_index = fibers[running].block;
    dynamic_shared = fibers[running].shared;
    emulation_switch(&scheduler, fibers[running].stack);
  }
  return any;
}

}  // namespace

void fail(const char* what) {
  std::fprintf(stderr, "emulated kernel: %s (block %u, thread %u)\n", what, block_index.x,
               thread_index.x);
  std::abort();
}

unsigned lane() {
  return static_cast<unsigned>(running % kWarp);
}

void wait_for_block() {
  leave(Fiber::at_block);
}

void yield() {
  leave(Fiber::ready);
}

std::uint32_t exchange(std::uint32_t bits, unsigned from) {
  auto& slots = brought[running / kWarp][fibers[running].exchanges++ % 2];
  slots[running % kWarp] = bits;
  leave(Fiber::at_warp);
  return slots[from];
}

void run_threads(int first, int count, const std::function<void()>& work, unsigned blocks) {
  static std::vector<std::vector<unsigned char>> shared;
  const auto threads = static_cast<std::size_t>(count);
  if (threads * blocks > kMaxThreads) fail("more threads at once than there are stacks");
  while (shared.size() < blocks) shared.emplace_back(kSharedBytes);
  thread_work = &work;
  fibers.assign(threads * blocks, {});
  slow_warps.draw(blocks, (threads + kWarp - 1) / kWarp);
  const auto first_block = block_index;
  for (std::size_t i = 0; i < fibers.size(); ++i) {
    const auto number = static_cast<unsigned>(first) + static_cast<unsigned>(i % threads);
    const auto block = static_cast<unsigned>(i / threads);
    fibers[i].stack = fresh_stack(i);
    fibers[i].index = {number % block_dim.x, number / block_dim.x, 0};
    fibers[i].block = {first_block.x + block, first_block.y, first_block.z};
    fibers[i].shared = shared[block].data();
  }
  while (run_ready_threads()) {
    for (std::size_t begin = 0; begin < fibers.size(); begin += threads) {
      const auto end = begin + threads;
      for (auto warp = begin; warp < end; warp += kWarp)
        release(warp, std::min(warp + kWarp, end), Fiber::at_warp);
      release(begin, end, Fiber::at_block);
    }
  }
  for (const auto& fiber : fibers)
    if (fiber.state != Fiber::done) fail("threads wait for each other for ever");
}

}  // namespace emulation

namespace tg::cuda {

// Few blocks, so that a grid is smaller than most tests' work.
int blocks_for(std::int64_t wanted, int per_sm) {
  constexpr std::int64_t kMultiprocessors = 3;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, kMultiprocessors * per_sm));
}
bool is_hopper() {
  return true;
}

}  // namespace tg::cuda

namespace tg {

bool has_fp8_tensor_cores() {
  return true;
}

}  // namespace tg
