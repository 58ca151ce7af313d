// usage: gemm_search [--recipe NAME] [--dtype bf16|fp8] [--seconds S] [--total S]
//
// Searches for cublasLt algorithms that are faster than the one that ops/gemm/algorithm_choice or
// LibTorch uses, for each GEMM that a training step leaves to cuBLAS. Times today's call, then
// every algorithm of cublasLt's heuristic with a large workspace, then today's call and the best
// three alternately in back-to-back launches, so that the power limit sets the clock as in a
// training step. Finally prints the gain per step. Requires a Hopper GPU that nothing else uses.
#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "algorithm_search.h"
#include "base/program.h"
#include "config/flags.h"
#include "device/gpu.h"
#include "device/launch.h"
#include "ops/gemm/algorithm_choice.h"

namespace tg {
namespace {

void print_step(const char* training, const std::vector<BestGemm>& found,
                bool TrainingGemm::*computed) {
  double today = 0, best = 0;
  for (const auto& result : found) {
    if (!(result.gemm->*computed)) continue;
    today += result.today_ms * static_cast<double>(result.gemm->per_step);
    best += result.best_ms * static_cast<double>(result.gemm->per_step);
  }
  fmt::print("{} training, all of a step: {:.2f} ms today, {:.2f} with the best ({:.3f}x)\n",
             training, today, best, today / best);
}

cxxopts::Options declare_options() {
  cxxopts::Options options("gemm_search", "Times cublasLt's algorithms for training's GEMMs.\n");
  auto add = options.add_options();
  add("recipe", "record or speedrun_124m; otherwise both", cxxopts::value<std::string>(), "NAME");
  add("dtype", "bf16 or fp8: the operands of the GEMMs; otherwise both",
      cxxopts::value<std::string>(), "NAME");
  add("seconds", "at most so long for a GEMM", cxxopts::value<double>()->default_value("1.9"), "S");
  add("total", "about so long for all", cxxopts::value<double>()->default_value("80"), "S");
  add("help", "print this");
  return options;
}

// Returns the option's value, or "" if it is not given. Throws if it is not among `allowed`.
std::string chosen(const cxxopts::ParseResult& given, const char* name,
                   const std::vector<std::string>& allowed) {
  if (given.count(name) == 0) return "";
  auto value = given[name].as<std::string>();
  REQUIRE(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), ExitCode::usage,
          "--{} must be {} or {}, got '{}'", name, allowed.front(), allowed.back(), value);
  return value;
}

// Reports the program as skipped, as a test of tests/runner would.
[[noreturn]] void skip(const char* reason) {
  fmt::print("SKIPPED gemm_search: {}\n", reason);
  std::exit(77);
}

void run(int argc, char** argv) {
  const Stopwatch watch;
  auto declared = declare_options();
  const auto given = parse_flags(declared, argc, argv);
  if (given.count("help") > 0) {
    std::cout << declared.help();
    return;
  }
  const auto recipe = chosen(given, "recipe", {"record", "speedrun_124m"});
  const auto dtype = chosen(given, "dtype", {"bf16", "fp8"});
  const double seconds = given["seconds"].as<double>(), total = given["total"].as<double>();
  REQUIRE(seconds > 0 && total > 0, ExitCode::usage, "--seconds and --total must be positive");
  const auto gpus = gpu_names();
  if (gpus.empty()) skip("no GPU");
  use_gpu(0);
  if (!cuda::is_hopper()) skip("no Hopper GPU");

  std::vector<std::pair<const GemmRecipe*, std::vector<TrainingGemm>>> work;
  std::size_t left = 0;
  for (const auto& candidate : gemm_recipes()) {
    if (!recipe.empty() && recipe != candidate.name) continue;
    auto gemms = training_gemms(candidate);
    if (!dtype.empty())
      std::erase_if(gemms, [&](const TrainingGemm& g) { return g.fp8 != (dtype == "fp8"); });
    left += gemms.size();
    work.emplace_back(&candidate, std::move(gemms));
  }
  const at::NoGradGuard no_grad;
  const auto workspace =
      at::empty({kGemmWorkspaceBytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  fmt::print("{}, cublasLt {}; LibTorch's workspaces: {} MiB for cuBLAS, {} for cublasLt\n",
             gpus[0], cublasLtGetVersion(), at::cuda::getChosenWorkspaceSize() >> 20,
             at::cuda::getCUDABlasLtWorkspaceSize() >> 20);
  for (const auto& [shapes, gemms] : work) {
    fmt::print("\n{}, micro-steps of {} tokens; m, n, k\n", shapes->name, shapes->tokens);
    std::vector<BestGemm> found;
    for (const auto& gemm : gemms) {
      const double share = (total - watch.seconds()) / static_cast<double>(left--);
      found.push_back(AlgorithmSearch(gemm, std::clamp(share, 0.01, seconds), workspace).run());
    }
    if (dtype != "fp8") print_step("bf16", found, &TrainingGemm::in_bf16);
    if (dtype.empty()) print_step("FP8", found, &TrainingGemm::in_fp8);
    if (dtype == "fp8") print_step("FP8 GEMMs of FP8", found, &TrainingGemm::in_fp8);
  }
  fmt::print("\n{:.0f} s\n", watch.seconds());
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
