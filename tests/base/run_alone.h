#pragma once
#include <functional>
#include <thread>

#include "base/program.h"

namespace tg::test {

// Runs `program` on its own thread, since GTest catches exceptions that reach it: uncaught
// exceptions then end the process as under main().
inline void run_alone(const std::function<void()>& program) {
  std::thread([&] { run_program(program); }).join();
}

}  // namespace tg::test
