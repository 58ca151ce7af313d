#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"

namespace tg {

inline constexpr std::size_t kForeignHead = 1 << 12;  // bytes needed to detect a format

// Returns UTF-16LE, UTF-16BE, UTF-32LE or UTF-32BE if the sample, from a text without byte order
// mark, is in that encoding; else empty. Read as single bytes, such text has many control
// characters, including zeros.
std::string_view wide_encoding(std::string_view sample);

// Throws Error(bad_data) for a file that begins like a known non-text format, or like UTF-16 or
// UTF-32 text, whatever its name. The message has the command that converts it; rows become JSON
// lines of `text_key`.
void refuse_foreign_format(std::string_view head, const UnpackedFile& file,
                           const std::string& text_key);

}  // namespace tg
