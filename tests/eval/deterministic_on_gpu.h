#pragma once
#include <ATen/Context.h>

#include "config/environment.h"
#include "device/gpu.h"
#include "tests/ops/on_gpu.h"

namespace tg::test {

// Fixture for tests on GPU 0 that expect equal bits: uses deterministic algorithms, which cuBLAS
// must know when it is initialized. Skipped without a GPU.
class DeterministicOnGpu : public OnGpu<> {
 protected:
  void SetUp() override {
    RuntimeConfig runtime;
    runtime.deterministic = true;
    set_library_environment(runtime, {});
    OnGpu::SetUp();
    if (IsSkipped()) return;
    use_gpu(0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  }
};

}  // namespace tg::test
