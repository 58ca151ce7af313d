#pragma once
// The device and the dtypes that a run computes with.
#include <ATen/ATen.h>

#include <string>

#include "config/launch.h"
#include "config/settings.h"
#include "device/gpu_memory.h"
#include "model/padding.h"
#include "ops/attention/attention.h"

namespace tg {

struct Machine {
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;   // activations and products
  at::ScalarType storage = at::kFloat;   // embedding tables and their AdamW state
  at::ScalarType matrices = at::kFloat;  // Muon's momentum and products, and the banks' reduction
  std::string compute_name;              // of `compute`; "TF32" where fp32 products may use it
  bool fp8 = false;                      // whether FP8's products are in FP8
  Padding padding;                       // of the sizes that the model computes with
  AttentionKernel attention = AttentionKernel::math;
  std::string device_name;  // "NVIDIA H200", or "CPU, n threads"
  std::string threads;      // how many compute on the CPU: set_threads()'s text
  int cores = 1;            // this rank's share of the host's cores
  double peak_flops = 0;    // dense products of `compute` a second; 0: unknown
};

// Resolves DEVICE, COMPUTE_DTYPE and ATTENTION, and sets the process up for them (current GPU,
// threads, TF32, deterministic algorithms). Call before LibTorch computes anything. Errors: usage,
// naming what was asked for and what is there; those of limit_gpu_memory().
Machine set_up_machine(const RuntimeConfig& runtime, const ModelConfig& model,
                       const LaunchInfo& launch);

// The settings with COMPUTE_DTYPE and FP8 as that machine computes: no `auto`, and no FP8 where its
// kernels or tensor cores are missing.
Settings settings_as_computed(Settings settings, const Machine& machine);

// The most memory in use since the start: of the device, or on a CPU of the process.
MemoryPeak peak_memory(at::Device device);

// One item a line: program, commit, LibTorch, CUDA, cuDNN and NCCL, GPUs.
std::string version_text();
// Its first lines, the same on every machine: program, commit, LibTorch.
std::string program_version();
std::string program_line();  // the same with commas
std::int64_t code_bytes();

}  // namespace tg
