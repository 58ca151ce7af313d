#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstring>

namespace tg::fuzz {

std::string Mutator::next() {
  std::string bytes = any_file();
  for (size_t changes = 1 + below(8); changes > 0; --changes) change(bytes);
  return bytes;
}

// Mostly short, since a long one destroys most of a small file's structure.
std::string Mutator::part_of(const std::string& bytes) {
  const size_t at = below(bytes.size() + 1), longest = below(4) == 0 ? bytes.size() : 16;
  return bytes.substr(at, 1 + below(longest));
}

// Sizes, offsets and counts at their limits, and near the file's own size.
void Mutator::put_number(std::string& bytes, size_t at) {
  constexpr uint64_t numbers[] = {0,          1,          0x7f,       0x80,
                                  0xff,       0x7fff,     0x8000,     0xffff,
                                  0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                  1ULL << 63, ~0ULL,      ~0ULL - 7,  1ULL << 32};
  const uint64_t base = below(4) == 0 ? bytes.size() : numbers[below(std::size(numbers))];
  const uint64_t number = base + below(3) - 1;
  const size_t width = std::min<size_t>(size_t{1} << below(4), bytes.size() - at);
  std::memcpy(bytes.data() + at, &number, width);
}

void Mutator::change(std::string& bytes) {
  const size_t at = below(bytes.size());
  switch (bytes.empty() ? 7 : below(9)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      bytes[at] = static_cast<char>(random_());
      break;
    case 2:
      put_number(bytes, at);
      break;
    case 3:
      bytes.erase(at, 1 + below(16));
      break;
    case 4:
      if (below(8) == 0) bytes.resize(at);
      break;
    case 5:
      bytes.insert(at, part_of(bytes));
      break;
    case 6: {
      const std::string part = part_of(bytes);
      bytes.replace(at, part.size(), part);
      break;
    }
    case 7:
      bytes.insert(at, part_of(any_file()));
      break;
    default:
      bytes.insert(at, 1 + below(8), static_cast<char>(random_()));
      break;
  }
}

}  // namespace tg::fuzz
