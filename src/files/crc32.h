#pragma once
#include <cstddef>
#include <cstdint>

namespace tg {

// CRC-32 of zip and gzip (polynomial 0xEDB88320).
std::uint32_t crc32(const void* bytes, std::size_t count);
// CRC-32C (Castagnoli, 0x82F63B78) of TensorBoard's event files.
std::uint32_t crc32c(const void* bytes, std::size_t count);

}  // namespace tg
