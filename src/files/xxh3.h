#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tg {

// XXH3 with 64 bits, seed 0: finds damage, at the speed of memory; no protection against forgery.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();

  void add(const void* bytes, size_t count);
  std::uint64_t value() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tg
