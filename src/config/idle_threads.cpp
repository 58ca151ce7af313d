// Idle OpenMP threads spin, which starves other processes: four runs that start at once on 16 cores
// with 16 threads each take 50 s for work that takes one run 1.4 s. libgomp reads the
// spin count from the environment when it is loaded, before main; so the program executes itself
// again, in the same process, with GOMP_SPINCOUNT set. This happens before any library's
// constructors run and costs 40 ms.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstddef>

namespace {

// Neither the C library nor a sanitizer is initialised yet: only loops over plain memory.
#define BEFORE_CONSTRUCTORS __attribute__((no_sanitize("address", "undefined")))

BEFORE_CONSTRUCTORS bool starts_with(const char* text, const char* prefix) {
  while (*prefix != '\0' && *text == *prefix) ++text, ++prefix;
  return *prefix == '\0';
}

BEFORE_CONSTRUCTORS void let_idle_threads_sleep(int, char** argv, char** envp) {
  std::size_t count = 0;
  for (; envp[count] != nullptr; ++count) {
    const char* const variable = envp[count];
    const bool chosen =
        starts_with(variable, "OMP_WAIT_POLICY=") || starts_with(variable, "GOMP_SPINCOUNT=");
    if (chosen) return;  // by the user, or before execve
  }
  // Threads that sleep at once (OMP_WAIT_POLICY=PASSIVE) made steps of the CPU quickstart 30 %
  // slower on two idle cores; this spin count, a tenth of the default, costs nothing.
  static char short_spin[] = "GOMP_SPINCOUNT=30000";
  auto** const extended = static_cast<char**>(__builtin_alloca((count + 2) * sizeof(char*)));
  for (std::size_t i = 0; i < count; ++i) extended[i] = envp[i];
  extended[count] = short_spin;
  extended[count + 1] = nullptr;
  // Executes the path it was called with, so that ps shows its name. If execve fails, this process
  // continues with threads that spin.
  ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv, extended);
}

__attribute__((section(".preinit_array"), used)) auto* const before_constructors =
    &let_idle_threads_sleep;

}  // namespace
