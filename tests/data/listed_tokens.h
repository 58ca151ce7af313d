#pragma once
// A token source from a list, for tests and benchmarks.
#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include "data/token_source.h"

namespace tg::test {

using Tokens = std::vector<std::uint16_t>;

class ListedTokens final : public TokenSource {
 public:
  explicit ListedTokens(Tokens tokens) : tokens_(std::move(tokens)) {}
  const std::string& pattern() const override { return name_; }
  std::string identity() const override { return name_; }
  std::int64_t tokens(int) const override { return std::ssize(tokens_); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return std::min(limit, std::ssize(tokens_));
  }
  void read_at(std::int64_t offset, std::span<std::uint16_t> out) const override {
    assert(offset + std::ssize(out) <= std::ssize(tokens_));
    std::copy_n(tokens_.begin() + offset, out.size(), out.begin());
  }

 private:
  std::string name_ = "listed";
  Tokens tokens_;
};

}  // namespace tg::test
