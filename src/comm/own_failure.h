#pragma once
#include <exception>

namespace tg {

// Returns whether a collective failed because this rank ran out of memory or threads, or because
// its own GPU failed: then no peer is lost. A failed GPU fails the next CUDA call, whatever that
// call is for.
bool is_own_failure(const std::exception& error);

}  // namespace tg
