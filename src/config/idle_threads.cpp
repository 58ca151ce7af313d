// OpenMP's threads wait for their next task in a loop, which starves whatever else runs on the
// machine: four runs that start at once on 16 cores with 16 threads each take 50 s for what one
// does in 1.4. libgomp decides how threads wait when it is loaded, before main, from the
// environment; so the program starts itself once more, as the same process, with GOMP_SPINCOUNT
// set. That happens before the constructors of any library have run and costs 40 ms.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstddef>

namespace {

// Nothing of the C library or of a sanitizer is set up yet: plain loops over plain memory.
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
    if (chosen) return;  // by the user, or this is the second start
  }
  // Threads that sleep at once (OMP_WAIT_POLICY=PASSIVE) made steps of the CPU quickstart 30 %
  // slower on two idle cores; this many turns of the loop cost nothing, and are a tenth of the
  // default.
  static char short_spin[] = "GOMP_SPINCOUNT=30000";
  auto** const extended = static_cast<char**>(__builtin_alloca((count + 2) * sizeof(char*)));
  for (std::size_t i = 0; i < count; ++i) extended[i] = envp[i];
  extended[count] = short_spin;
  extended[count + 1] = nullptr;
  // As it was called, so that ps shows its name. Should it fail, this start goes on, with threads
  // that do not sleep.
  ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv, extended);
}

__attribute__((section(".preinit_array"), used)) auto* const before_constructors =
    &let_idle_threads_sleep;

}  // namespace
