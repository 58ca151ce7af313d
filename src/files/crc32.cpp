#include "files/crc32.h"

#include <array>
#include <string_view>

#include "files/little_endian.h"

namespace tg {
namespace {

// Tables for 8 bytes per step ("slicing by 8"), about 2 GB/s: tables[k][b] is the effect of byte b
// on the CRC k bytes later. `polynomial` is reflected, without its highest term.
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
  std::string_view left(static_cast<const char*>(bytes), count);
  uint32_t crc = ~0u;
  for (; left.size() >= 8; left.remove_prefix(8)) {
    const auto word = number_at<uint64_t>(left) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (const char byte : left) crc = (crc >> 8) ^ tables[0][(crc ^ byte) & 0xff];
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
