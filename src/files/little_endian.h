#pragma once
// Little-endian numbers in files; this machine is little-endian too.
#include <bit>
#include <cassert>
#include <cstring>
#include <string>
#include <string_view>

namespace tg {

static_assert(std::endian::native == std::endian::little);

// Reads the number at offset `at`. Precondition: `bytes` holds it.
template <class T>
T number_at(std::string_view bytes, std::size_t at = 0) {
  assert(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append_number(std::string& to, auto value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace tg
