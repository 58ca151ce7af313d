#include "process/machine.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <cctype>

#include "base/error.h"
#include "base/log.h"
#include "build_info.h"
#include "config/types/text.h"
#include "device/gpu.h"
#include "ops/fused.h"
#include "process/threads.h"

namespace tg {
namespace {

at::Device choose_device(DeviceChoice choice, const std::vector<std::string>& gpus,
                         int local_rank) {
  if (choice == DeviceChoice::cpu) return at::kCPU;
  if (gpus.empty()) {
    REQUIRE(
        choice != DeviceChoice::cuda, ExitCode::usage,
        "DEVICE=cuda: no usable NVIDIA GPU found (built with CUDA: {}); use DEVICE=cpu, or check "
        "nvidia-smi and the driver",
        cuda_version().empty() ? "no" : cuda_version());
    return at::kCPU;
  }
  REQUIRE(local_rank < static_cast<int>(gpus.size()), ExitCode::usage,
          "local rank {} has no GPU: {} found; start at most one rank a GPU", local_rank,
          gpus.size());
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local_rank));
}

at::ScalarType choose_compute(ComputeDtype choice, at::Device device) {
  switch (choice) {
    case ComputeDtype::automatic:
      return device.is_cuda() ? at::kBFloat16 : at::kFloat;
    case ComputeDtype::bf16:
      return at::kBFloat16;
    case ComputeDtype::fp16:
      return at::kHalf;
    case ComputeDtype::tf32:
    case ComputeDtype::fp32:
      return at::kFloat;
  }
  return at::kFloat;
}

// In fp16 the gradients of the matrices would overflow or underflow in their optimizer, once the
// loss scale is divided out.
at::ScalarType choose_matrices(at::ScalarType compute, at::Device device) {
  if (compute != at::kHalf) return compute;
  return device.is_cuda() && has_bf16_tensor_cores() ? at::kBFloat16 : at::kFloat;
}

// For the questions of ops/fused.h.
at::Tensor empty_activations(const Machine& machine) {
  return at::empty({0}, at::TensorOptions(machine.device).dtype(machine.compute));
}

// Returns false, with a warning, if FP8's kernels or tensor cores are missing: a run does not fail
// because a faster GEMM is unavailable.
bool choose_fp8(const RuntimeConfig& runtime, const ModelConfig& model, const Machine& machine,
                bool warns) {
  if (!runtime.fp8.any()) return false;
  const auto without = [&](const std::string& requirement) {
    if (warns)
      log_warn("FP8={} needs {}: GEMMs run in {}", value_text(runtime.fp8), requirement,
               machine.compute_name);
    return false;
  };
  const auto sizes = compute_sizes(model_shape(model), machine.padding);
  const auto qkv = (model.num_heads + 2 * model.num_kv_heads) * sizes.head_dim;
  const auto attended = model.num_heads * sizes.head_dim;
  if (!use_fp8_gemms(empty_activations(machine)))
    return without("a GPU of compute capability 8.9 or more and FUSED=1");
  // The kernels and cublasLt read rows of multiples of 16 bytes.
  constexpr std::int64_t kMultiple = 16;
  for (const auto size : {sizes.dim, sizes.hidden, qkv, attended}) {
    if (size % kMultiple != 0)
      return without(fmt::format("sizes that are multiples of {}, found {}", kMultiple, size));
  }
  return true;
}

// Returns the peak rate of dense GEMMs relative to bf16; 0 for fp32, whose peak, on another unit of
// the GPU, is not known here.
double relative_peak(const Machine& machine, bool tf32) {
  if (tf32) return 0.5;
  return machine.compute == at::kFloat ? 0 : 1;
}

struct Peak {
  std::string_view name;
  double bf16_tflops;
};
constexpr Peak kPeaks[] = {{"GB200", 2500},   {"B200", 2250},      {"GH200", 989.5},
                           {"H200", 989.5},   {"H200 NVL", 836},   {"H100", 989.5},
                           {"H100 NVL", 835}, {"H100 PCIe", 756},  {"A100", 312},
                           {"L40S", 362},     {"RTX 5090", 209.5}, {"RTX 4090", 165.2},
                           {"RTX 3090", 71}};

// Matches whole words: "GB200" does not contain "B200".
bool has_words(std::string_view text, std::string_view words) {
  const auto ends_word = [&](std::size_t at) {
    return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
  };
  for (auto at = text.find(words); at != text.npos; at = text.find(words, at + 1)) {
    if ((at == 0 || ends_word(at - 1)) && ends_word(at + words.size())) return true;
  }
  return false;
}

}  // namespace

// By default malloc returns freed activations to the system or not, by what was allocated before:
// scores of one model took 1.9 or 2.1 s, and training steps are 7 % longer.
void keep_freed_memory() {
  constexpr int kLargestBlock = 32 << 20;  // glibc refuses a larger threshold
  constexpr int kKeptBytes = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kLargestBlock);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

Machine set_up_machine(const RuntimeConfig& runtime, const ModelConfig& model,
                       const LaunchInfo& launch) {
  const auto gpus = runtime.device == DeviceChoice::cpu ? std::vector<std::string>{} : gpu_names();
  Machine machine;
  machine.device = choose_device(runtime.device, gpus, launch.local_rank);
  machine.threads = set_threads(launch, machine.device.is_cuda());
  machine.cores = threads_of_rank(find_cores(launch), launch.local_size, /*gpu=*/false);
  if (machine.device.is_cpu()) keep_freed_memory();
  machine.compute = choose_compute(runtime.compute_dtype, machine.device);
  machine.storage = machine.compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat;

  machine.padding = choose_padding(runtime.pad_vocab, machine.device, machine.compute);
  machine.attention = choose_attention(
      std::string(choice_name(runtime.attention)), machine.device, machine.compute,
      compute_sizes(model_shape(model), machine.padding).head_dim, runtime.deterministic);
  use_attention(machine.attention);
  set_fused(runtime.fused);
  set_hopper(runtime.hopper != HopperChoice::off);
  const bool tf32 = runtime.compute_dtype == ComputeDtype::tf32;
  machine.compute_name = tf32 ? "TF32" : c10::toString(machine.compute);

  auto& context = at::globalContext();
  context.setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  context.setDeterministicAlgorithms(runtime.deterministic, /*warn_only=*/false);

  if (machine.device.is_cuda()) {
    use_gpu(launch.local_rank);
    if (runtime.memory_limit_gb > 0) {
      limit_gpu_memory(static_cast<std::int64_t>(runtime.memory_limit_gb * (1 << 30)));
    }
    machine.device_name = gpus[static_cast<std::size_t>(launch.local_rank)];
    machine.peak_flops = relative_peak(machine, tf32) * peak_bf16_flops(machine.device_name);
  } else {
    machine.device_name = fmt::format("CPU, {} threads", at::get_num_threads());
  }
  REQUIRE(runtime.hopper != HopperChoice::on || use_hopper_kernels(empty_activations(machine)),
          ExitCode::usage,
          "HOPPER=1: Hopper's kernels need an H100 or H200, FUSED=1, and bf16 or fp16; found {}, "
          "FUSED={}, {}; leave HOPPER out",
          machine.device_name, runtime.fused ? 1 : 0, machine.compute_name);
  machine.matrices = choose_matrices(machine.compute, machine.device);
  machine.fp8 = choose_fp8(runtime, model, machine, /*warns=*/launch.rank == 0);
  return machine;
}

Settings settings_as_computed(Settings settings, const Machine& machine) {
  auto& runtime = settings.runtime;
  if (runtime.compute_dtype == ComputeDtype::automatic)
    runtime.compute_dtype =
        machine.compute == at::kBFloat16 ? ComputeDtype::bf16 : ComputeDtype::fp32;
  if (!machine.fp8) runtime.fp8 = {};
  return settings;
}

MemoryPeak peak_memory(at::Device device) {
  if (device.is_cuda()) return gpu_memory_peak();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_maxrss * 1024, usage.ru_maxrss * 1024};
}

std::string program_version() {
  return fmt::format("train_gpt {} commit {}\nLibTorch {}\n", kVersion, kGitCommit, TORCH_VERSION);
}

std::string program_line() {
  return fmt::format("train_gpt {} commit {}, LibTorch {}", kVersion, kGitCommit, TORCH_VERSION);
}

std::string version_text() {
  std::string text = program_version();
  if (cuda_version().empty()) {
    text += "CUDA none (built without)\n";
  } else {
    text += fmt::format("CUDA {}\ncuDNN {}\nNCCL {}\n", cuda_version(), cudnn_version(),
                        nccl_version());
  }
  const auto gpus = gpu_names();
  if (gpus.empty()) return text + "GPUs none\nKernels none\n";
  return text + fmt::format("GPUs {}\nKernels {}\n", fmt::join(gpus, ", "),
                            has_hopper_kernels() ? "Hopper" : "generic");
}

std::string release_name() {
  return fmt::format("train_gpt {}", kVersion);
}

std::int64_t code_bytes() {
  return kCodeBytes;
}

double peak_bf16_flops(std::string_view gpu) {
  if (has_words(gpu, "Laptop")) return 0;  // another chip under the same name
  const Peak* longest = nullptr;
  for (const auto& peak : kPeaks) {
    const bool longer = longest == nullptr || peak.name.size() > longest->name.size();
    if (longer && has_words(gpu, peak.name)) longest = &peak;
  }
  return longest == nullptr ? 0 : longest->bf16_tflops * 1e12;
}

}  // namespace tg
