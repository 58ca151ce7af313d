#pragma once
// A token source from a list, for tests and benchmarks.
#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "data/token_source.h"

namespace tg::test {

using Tokens = std::vector<TokenId>;

class ListedTokens final : public TokenSource {
 public:
  explicit ListedTokens(Tokens tokens, int id_bytes = sizeof(NarrowId))
      : tokens_(std::move(tokens)), id_bytes_(id_bytes) {}
  const std::string& pattern() const override { return name_; }
  std::string identity() const override { return name_; }
  std::int64_t tokens(int) const override { return std::ssize(tokens_); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return std::min(limit, std::ssize(tokens_));
  }
  int id_bytes() const override { return id_bytes_; }
  void read_at(std::int64_t offset, const MutableIds& out) const override {
    std::visit(
        [&](auto ids) {
          assert(offset + std::ssize(ids) <= std::ssize(tokens_));
          std::copy_n(tokens_.begin() + offset, ids.size(), ids.begin());
        },
        out);
  }

 private:
  std::string name_ = "listed";
  Tokens tokens_;
  int id_bytes_;
};

}  // namespace tg::test
