#pragma once
#include <exception>

namespace tg {

// Whether a collective failed by what this rank lacks, memory or threads, or by its own GPU: then
// no peer is lost. A failed GPU fails the first CUDA call after it, whatever that call is for.
bool is_own_failure(const std::exception& error);

}  // namespace tg
