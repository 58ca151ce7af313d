// libFuzzer's entry: the contract of every reader of files from outside.
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {
namespace {

std::atomic<size_t> allocation_limit{SIZE_MAX};

[[noreturn]] void report(const char* what, const char* detail) {
  std::fprintf(stderr, "FINDING: %s: %s\n", what, detail);
  std::abort();
}

void check(const Error& error) {
  const std::string_view line = error.what();
  const ExitCode code = error.exit_code();
  if (code != ExitCode::usage && code != ExitCode::bad_data && code != ExitCode::config)
    report("an Error of another exit code", error.what());
  if (line.empty() || line.find('\n') != std::string_view::npos)
    report("an Error of other than one line", error.what());
}

}  // namespace

void note_allocation(size_t size) {
  if (size <= allocation_limit) return;
  allocation_limit = SIZE_MAX;
  report("an allocation far above the file's size", std::to_string(size).c_str());
}

}  // namespace tg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tg::fuzz;
  allocation_limit = largest_allocation(size);
  try {
    read({reinterpret_cast<const char*>(data), size});
  } catch (const tg::Error& error) {
    check(error);
  } catch (const std::exception& error) {
    report("an exception other than Error", error.what());
  }
  allocation_limit = SIZE_MAX;
  return 0;
}

// Never inlined: the compiler would see malloc's memory freed, or new's, and warn of a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  tg::fuzz::note_allocation(size);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  tg::fuzz::note_allocation(size);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
