#pragma once
// .lrz streams, packed and unpacked by the program lrzip, whose ZPAQ models six-bit weights better
// than any library here. It is no library and not hardened: a damaged stream may crash it, so it
// runs as a child with limits.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Packs and unpacks a few bytes, in 40 ms. Errors: missing_input (not installed), cannot_create (it
// cannot make temporary files: neither TMPDIR, else /tmp, nor the current folder can be
// written), internal.
void require_lrzip();

// Each as `lrzip -z -L 9` packs it, with one thread: of 11.5 MB some 27 s and 290 MB of memory, and
// the same bytes for any number of cores. All at once. Nothing of no bytes. Errors: missing_input,
// internal (with its last words).
std::vector<std::string> compress_lrzip(const std::vector<std::string>& contents);

struct LrzipStream {
  std::string_view packed;
  std::uint64_t size;  // that its contents must have
  std::string name;    // for messages
};

// The contents of each, all at once. Errors: bad_data (other than one whole stream of that size),
// and those of require_lrzip().
std::vector<std::string> decompress_lrzip(const std::vector<LrzipStream>& streams);

}  // namespace tg
