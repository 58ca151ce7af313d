#pragma once
// Runs the real program make_shards.
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/shard.h"
#include "data/sharding.h"
#include "tests/data/shards.h"
#include "text/tokenizer.h"

namespace tg::test {

using Ids = std::vector<std::uint16_t>;

inline const std::string kModel = std::string(TEST_DATA_DIR) + "/data_bpe.model";

struct Outcome {
  int code = 0;
  std::string out, err;
};

// Runs the real program; the shell parses `arguments`.
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

inline std::string sentence(int index) {
  return fmt::format(
      "Document {} grants you a copyright licence to reproduce the work, über alles.", index);
}

// Returns the decoded documents of a split.
inline std::vector<std::string> documents(const std::string& dir, const std::string& split,
                                          const Tokenizer& tokenizer = Tokenizer(kModel)) {
  std::vector<std::vector<TokenId>> found;
  for (const std::uint16_t id : all_tokens(dir, split)) {
    if (id == tokenizer.bos_id()) {
      found.emplace_back();
    } else {
      found.back().push_back(id);
    }
  }
  std::vector<std::string> texts;
  for (const auto& ids : found) texts.push_back(tokenizer.decode(ids));
  return texts;
}

// Returns a sidecar's entries, read as shards are.
inline Ids sidecar(const std::string& dir) {
  return all_tokens(dir, std::string(kSidecarSplit), 1 << 16);
}

}  // namespace tg::test
