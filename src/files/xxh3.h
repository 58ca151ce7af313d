#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tg {

// 64-bit XXH3 with seed 0: detects damage at memory speed; no protection against forgery.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();

  void add(const void* bytes, size_t count);
  std::uint64_t value() const;  // hash of all bytes added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tg
