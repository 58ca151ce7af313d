#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"
#include "text/wide_encoding.h"

namespace tg {

inline constexpr std::size_t kForeignHead = kEncodingSample;  // bytes that tell a format

// Refuses a file that begins like one of a format that is no text, or text in UTF-16 or UTF-32,
// whatever its name: bad_data, with the command that converts it, rows to JSON lines of `text_key`.
void refuse_foreign_format(std::string_view head, const UnpackedFile& file,
                           const std::string& text_key);

}  // namespace tg
