#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"

namespace tg {

inline constexpr std::size_t kEncodingSample = 1 << 12;  // bytes that tell an encoding

// UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE where the begin of a text without a byte order mark is
// such; else empty. Control characters between the others give it away: zeros, or what halves of
// characters look like in text of single bytes.
std::string_view wide_encoding(std::string_view sample);

inline constexpr std::size_t kForeignHead = kEncodingSample;  // bytes that tell a format

// Refuses a file that begins like one of a format that is no text, or text in UTF-16 or UTF-32,
// whatever its name: bad_data, with the command that converts it, rows to JSON lines of `text_key`.
void refuse_foreign_format(std::string_view head, const UnpackedFile& file,
                           const std::string& text_key);

}  // namespace tg
