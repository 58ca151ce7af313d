// usage: fuzz_NAME [--runs N] [--seconds N] [--seed S] [--out FOLDER] | fuzz_NAME FILE...
//
// An engine for compilers without libFuzzer: reads mutations of the seeds for N runs (1,000) or N
// seconds, in a process of their own. When that one ends by a signal, a sanitizer or exit(), or
// spends 20 seconds on one file, the file is written to FOLDER and the exit status is 1. With FILEs
// it reads those alone.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargest = 1 << 20;  // larger mutations are cut
constexpr unsigned kSecondsEach = 20;

struct Options {
  uint64_t runs = 1000, seconds = 0, seed = 1;
  std::string out = ".";
};

// What the process of the reader leaves for its parent, however it ends.
struct Current {
  uint64_t runs;
  size_t size;
  uint8_t bytes[kLargest];
};

// In memory of exactly its size, so that address sanitizer sees what is read beyond.
void read_once(const uint8_t* bytes, size_t size) {
  const auto exact = std::make_unique<uint8_t[]>(size);
  std::memcpy(exact.get(), bytes, size);
  LLVMFuzzerTestOneInput(exact.get(), size);
}

void read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) std::exit((std::perror(path), 66));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  read_once(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

void read_mutations(const Options& options, Current& current) {
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  tg::fuzz::Mutator mutator(tg::fuzz::seeds(), options.seed);
  while (options.seconds > 0 ? Clock::now() < end : current.runs < options.runs) {
    const std::string bytes = mutator.next();
    current.size = std::min(bytes.size(), kLargest);
    std::memcpy(current.bytes, bytes.data(), current.size);
    ::alarm(kSecondsEach);
    read_once(current.bytes, current.size);
    ++current.runs;
  }
}

int fuzz(const Options& options, const std::string& program) {
  void* const shared =
      ::mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::exit((std::perror("mmap"), 71));
  auto& current = *static_cast<Current*>(shared);
  const pid_t reader = ::fork();
  if (reader == 0) {
    read_mutations(options, current);
    std::exit(0);
  }
  int status = 0;
  if (reader < 0 || ::waitpid(reader, &status, 0) != reader) std::exit((std::perror("fork"), 71));
  std::printf("executions: %zu\n", static_cast<size_t>(current.runs));
  if (status == 0) return 0;
  const std::string path =
      options.out + "/crash-" + std::to_string(options.seed) + "-" + std::to_string(current.runs);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(current.bytes), static_cast<long>(current.size));
  std::fprintf(stderr, "FINDING: %s (wait status %d); repeat it with: %s %s\n", path.c_str(),
               status, program.c_str(), path.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i + 1 < argc && std::string_view(argv[i]).starts_with("--"); i += 2) {
    const std::string_view name = argv[i];
    const uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--runs") options.runs = number;
    if (name == "--seconds") options.seconds = number;
    if (name == "--seed") options.seed = number;
    if (name == "--out") options.out = argv[i + 1];
  }
  if (i == argc) return fuzz(options, argv[0]);
  for (; i < argc; ++i) read_file(argv[i]);
  return 0;
}
