#pragma once
#include <string_view>

namespace tg {

inline constexpr std::size_t kEncodingSample = 1 << 12;  // bytes that tell an encoding

// UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE where the begin of a text without a byte order mark is
// such; else empty. Control characters between the others give it away: zeros, or what halves of
// characters look like in text of single bytes.
std::string_view wide_encoding(std::string_view sample);

}  // namespace tg
