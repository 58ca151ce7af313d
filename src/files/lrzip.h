#pragma once
// .lrz streams, compressed by the program lrzip, whose ZPAQ models six-bit weights better than the
// libraries used here. lrzip has no library and is not hardened: a damaged stream may crash it, so
// it runs as a child process with limits.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Compresses and decompresses a few bytes, in 40 ms. Throws Error(missing_input) if lrzip is not
// installed, Error(cannot_create) if it cannot create temporary files (neither TMPDIR, else /tmp,
// nor the current folder is writable), and Error(internal).
void require_lrzip();

// Compresses all contents concurrently, each as `lrzip -z -L 9` does with one thread: 11.5 MB take
// about 27 s and 290 MB of memory. The bytes do not depend on the number of cores. Empty contents
// give an empty stream. Throws Error(missing_input), and Error(internal) with lrzip's last words.
std::vector<std::string> compress_lrzip(const std::vector<std::string>& contents);

struct LrzipStream {
  std::string_view packed;
  std::uint64_t size;  // size of the contents
  std::string name;    // for messages
};

// Decompresses all streams concurrently. Throws Error(bad_data) if one is not a single complete
// stream of that size, and what require_lrzip() throws.
std::vector<std::string> decompress_lrzip(const std::vector<LrzipStream>& streams);

}  // namespace tg
