#include "store/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace tg {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the eight-byte step reads little-endian");

// Eight bytes a step ("slicing by 8"), some 2 GB/s: tables[k][b] is b's effect k bytes further on.
// `polynomial`: reflected, without its highest term.
constexpr auto make_tables(uint32_t polynomial) {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? polynomial : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

template <uint32_t polynomial>
uint32_t checksum(const void* bytes, size_t count) {
  static constexpr auto tables = make_tables(polynomial);
  const auto* at = static_cast<const unsigned char*>(bytes);
  uint32_t crc = ~0u;
  for (; count >= 8; at += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; count > 0; ++at, --count) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace

uint32_t crc32(const void* bytes, size_t count) {
  return checksum<0xEDB88320u>(bytes, count);
}

uint32_t crc32c(const void* bytes, size_t count) {
  return checksum<0x82F63B78u>(bytes, count);
}

}  // namespace tg
