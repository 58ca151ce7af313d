#include <gtest/gtest.h>

#include <new>
#include <string>
#include <system_error>

#include "base/program.h"

namespace tg {
namespace {

std::string line_of(const std::string& message) {
  return std::string(out_of_memory_line(std::runtime_error(message)));
}

constexpr auto kUnhandled =
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3690, unhandled cuda "
    "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n"
    "ncclUnhandledCudaError: Call to CUDA library failed.\nLast error:\n";

TEST(Exhausted, TheLineThatTellsOfMemoryIsFoundInRealMessages) {
  for (const std::string& line : std::initializer_list<std::string>{
           "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
           "memory: you tried to allocate 549755813888 bytes. Error code 12 (Cannot allocate "
           "memory)",
           "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you "
           "tried to allocate 549755813888 bytes.",
           "unable to mmap 4096 bytes from file </dev/shm/torch_1>: Cannot allocate memory (12)",
           "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 "
           "GiB of which 3.42 GiB is free.",
           "CUDA error: out of memory",
           "CUDA driver error: out of memory",
           "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
           "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
           "std::bad_alloc",
       }) {
    EXPECT_EQ(line_of(line), line);
    EXPECT_EQ(line_of(line + "\nCompile with `TORCH_USE_CUDA_DSA`\nframe #0: c10::Error"), line);
  }
}

TEST(Exhausted, NcclTellsOfMemoryInALaterLine) {
  for (const std::string& line : std::initializer_list<std::string>{
           "Failed to CUDA calloc 10485760 bytes",
           "Failed to CUDA calloc async 608 bytes",
           "Failed to CUDA host alloc 4194304 bytes",
           "Cuda failure 2 'out of memory'",
       }) {
    EXPECT_EQ(line_of(kUnhandled + line), line);
  }
}

TEST(Exhausted, OtherFailuresAreNotOfMemory) {
  for (const auto& message : {
           std::string(kUnhandled) + "Cuda failure 700 'an illegal memory access was encountered'",
           std::string("CUDA error: an illegal memory access was encountered"),
           std::string("CUDA error: misaligned address"),
           std::string("NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a "
                       "network error, NCCL version 2.28.9\nncclRemoteError: A call failed"),
           std::string("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection "
                       "closed by peer [127.0.0.1]:33013"),
           std::string("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
       }) {
    EXPECT_EQ(line_of(message), "") << message;
  }
  struct OfCpp : std::bad_alloc {
    const char* what() const noexcept override { return "too long"; }
  };
  EXPECT_EQ(out_of_memory_line(OfCpp()), "std::bad_alloc");
}

TEST(Exhausted, AThreadThatCannotBeStarted) {
  EXPECT_TRUE(is_out_of_threads(
      std::system_error(EAGAIN, std::generic_category(), "Resource temporarily unavailable")));
  EXPECT_FALSE(is_out_of_threads(std::system_error(EPERM, std::generic_category())));
  EXPECT_FALSE(is_out_of_threads(std::runtime_error("Resource temporarily unavailable")));
}

}  // namespace
}  // namespace tg
