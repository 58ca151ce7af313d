#pragma once
// Device and dtypes that a run computes with.
#include <ATen/ATen.h>

#include <string>
#include <string_view>

#include "config/launch.h"
#include "config/settings.h"
#include "device/gpu_memory.h"
#include "model/padding.h"
#include "ops/attention/attention.h"

namespace tg {

struct Machine {
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;   // activations and GEMMs
  at::ScalarType storage = at::kFloat;   // embedding tables and their AdamW state
  at::ScalarType matrices = at::kFloat;  // momentum and GEMMs of Muon; the banks' reduction
  std::string compute_name;              // name of `compute`; "TF32" if fp32 GEMMs may use it
  bool fp8 = false;                      // whether the GEMMs that FP8 selects run in FP8
  Padding padding;                       // padding of the model's sizes
  AttentionKernel attention = AttentionKernel::math;
  std::string device_name;  // "NVIDIA H200", or "CPU, n threads"
  std::string threads;      // number of CPU threads: the text of set_threads()
  int cores = 1;            // host cores allotted to this rank
  double peak_flops = 0;    // dense FLOP/s in `compute`; 0: unknown
};

// Makes malloc keep the pages of freed blocks of up to 32 MiB, and 1 GiB of them at the end of the
// heap, for the next tensors. set_up_machine() calls it on a CPU.
void keep_freed_memory();

// Resolves DEVICE, COMPUTE_DTYPE and ATTENTION, and sets the process up for them (current GPU,
// threads, TF32, deterministic algorithms). Call before LibTorch computes anything. Throws
// Error(usage) that names what was requested and what is available, and whatever limit_gpu_memory()
// throws.
Machine set_up_machine(const RuntimeConfig& runtime, const ModelConfig& model,
                       const LaunchInfo& launch);

// Returns the settings with COMPUTE_DTYPE and FP8 as that machine computes: never `auto`, and no
// FP8 if its kernels or tensor cores are missing.
Settings settings_as_computed(Settings settings, const Machine& machine);

// Returns the peak memory use since the start: of the device or, on a CPU, of the process.
MemoryPeak peak_memory(at::Device device);

// One item a line: program with version and commit, LibTorch, CUDA, cuDNN and NCCL versions, GPUs,
// and which of their kernels run: "Hopper", "generic" or "none".
std::string version_text();
// First lines of version_text(), equal on every machine.
std::string program_version();
std::string program_line();  // program_version() on one line, with commas
std::string release_name();  // program and version alone: equal for builds of one release
std::int64_t code_bytes();

// Returns the peak dense bf16 FLOP/s with fp32 accumulators of the GPU with the driver's name
// `gpu`, such as "NVIDIA H100 80GB HBM3", from NVIDIA's datasheets; 0: unknown.
double peak_bf16_flops(std::string_view gpu);

}  // namespace tg
