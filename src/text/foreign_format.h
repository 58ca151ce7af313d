#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "files/unpacked_file.h"

namespace tg {

inline constexpr std::size_t kForeignHead = 512;  // bytes that tell a format

// Refuses a file that begins like one of a format that is no text, whatever its name: bad_data,
// with the command that converts it to JSON lines of `text_key`.
void refuse_foreign_format(std::string_view head, const UnpackedFile& file,
                           const std::string& text_key);

}  // namespace tg
