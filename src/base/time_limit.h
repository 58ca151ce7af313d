#pragma once
#include <chrono>
#include <functional>

namespace tg {

// Does the work on a thread of its own and waits for it, at most so long; it may then go on. For
// the end of a process, where work that blocks (storage may be what failed) must not keep it from
// ending. Where no thread can be started, this one does the work. Exceptions of the work are lost.
void run_at_most(std::chrono::seconds limit, const std::function<void()>& work);

}  // namespace tg
