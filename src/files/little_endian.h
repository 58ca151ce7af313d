#pragma once
// Numbers in files, which are little-endian as this machine is.
#include <bit>
#include <cassert>
#include <cstring>
#include <string>
#include <string_view>

namespace tg {

static_assert(std::endian::native == std::endian::little);

// The number at `at`; the bytes are there.
template <class T>
T number_at(std::string_view bytes, std::size_t at = 0) {
  assert(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append_number(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace tg
