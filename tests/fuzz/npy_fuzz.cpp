// A file NAME.npy: its header, and every token.
#include "data/token_file.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {
namespace {

std::string npy(char major, const std::string& dictionary, const std::string& elements) {
  std::string bytes = "\x93NUMPY";
  bytes += {major, '\0', static_cast<char>(dictionary.size()), '\0'};
  if (major > 1) bytes += {'\0', '\0'};
  return bytes + dictionary + elements;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      npy(1, "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }   \n",
          std::string("\1\0\2\0\3\0", 6)),
      npy(3, "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n", "ab"),
      npy(2, "{'shape': (2, 1), \"fortran_order\": True, 'descr': [('a', '<i8'), ('b', '<f4')]}",
          "abcdefgh")};
}

void read(std::string_view bytes) {
  static ScratchFile file("tokens.npy");
  file.put(bytes);
  const TokenFile tokens(file.path(), 1 << 16);
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens.tokens()));
  tokens.read(0, ids);
}

}  // namespace tg::fuzz
