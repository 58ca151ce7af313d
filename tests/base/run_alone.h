#pragma once
#include <functional>
#include <thread>

#include "base/program.h"

namespace tg::test {

// Gtest catches what a test throws; on a thread of its own a program is as alone as under main().
inline void run_alone(const std::function<void()>& program) {
  std::thread([&] { run_program(program); }).join();
}

}  // namespace tg::test
