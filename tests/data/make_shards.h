#pragma once
// Runs the real program make_shards.
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/shard.h"
#include "tests/data/shards.h"

namespace tg::test {

using Ids = std::vector<std::uint16_t>;

inline const std::string kModel = std::string(TEST_DATA_DIR) + "/data_bpe.model";

struct Outcome {
  int code = 0;
  std::string out, err;
};

// The real program; `arguments` go through a shell.
inline Outcome run_without_tokenizer(const TempDir& dir, const std::string& arguments) {
  const std::string command =
      fmt::format("{} {} >{} 2>{}", MAKE_SHARDS, arguments, dir / "stdout", dir / "stderr");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_file(dir / "stdout"), read_file(dir / "stderr")};
}

inline Outcome run(const TempDir& dir, const std::string& arguments,
                   const std::string& model = kModel) {
  return run_without_tokenizer(dir, fmt::format("--tokenizer {} {}", model, arguments));
}

inline Ids all_tokens(const std::string& dir, const std::string& split, int vocab_size = 512) {
  const ShardSet shards(dir, split, vocab_size);
  Ids tokens(static_cast<std::size_t>(shards.total_tokens()));
  shards.read_at(0, tokens);
  return tokens;
}

}  // namespace tg::test
