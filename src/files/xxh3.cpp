#include "files/xxh3.h"

// Header-only: a build runs on machines without libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tg {

struct Xxh3::State {
  XXH3_state_t xxh3;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh3);
  XXH3_64bits_reset(&state_->xxh3);
}

Xxh3::~Xxh3() = default;

void Xxh3::add(const void* bytes, size_t count) {
  XXH3_64bits_update(&state_->xxh3, bytes, count);
}

std::uint64_t Xxh3::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

}  // namespace tg
