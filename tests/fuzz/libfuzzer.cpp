// Under libFuzzer, `fuzz_NAME FOLDER` begins with the seeds, which are written there.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder)) continue;
    int number = 0;
    for (const std::string& seed : tg::fuzz::seeds())
      std::ofstream(folder / ("seed_" + std::to_string(number++)), std::ios::binary) << seed;
    break;
  }
  return 0;
}
