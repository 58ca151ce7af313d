#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "comm/communicator.h"

namespace tg {
namespace {

TEST(OwnFailure, IsWhatThisRankLacksAndItsOwnGpu) {
  EXPECT_TRUE(is_own_failure(std::bad_alloc()));
  EXPECT_TRUE(is_own_failure(std::system_error(EAGAIN, std::generic_category())));
  const c10::SourceLocation here{"event.record", "CUDAEvent.h", 1};
  EXPECT_TRUE(is_own_failure(
      c10::AcceleratorError(here, 700, "CUDA error: an illegal memory access was encountered")));
  EXPECT_TRUE(is_own_failure(c10::DistBackendError(
      here,
      "NCCL error in: NCCLUtils.cpp:77, unhandled cuda error\nncclUnhandledCudaError: Call to "
      "CUDA function failed.\nLast error:\nCuda failure 700")));
}

TEST(OwnFailure, ALostPeerIsNone) {
  const c10::SourceLocation here{"collective", "ProcessGroupNCCL.cpp", 1};
  EXPECT_FALSE(is_own_failure(c10::DistBackendError(
      here,
      "NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a network error\n"
      "ncclRemoteError: A call failed possibly due to a network error")));
  EXPECT_FALSE(is_own_failure(std::runtime_error("Connection closed by peer [127.0.0.1]:29500")));
}

}  // namespace
}  // namespace tg
