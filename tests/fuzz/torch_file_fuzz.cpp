// A file of torch.save: the zip, its pickle and its storages.
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/pickle/torch_file.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {torch_value_bytes(small_dict())};
}

void read(std::string_view bytes) {
  touch(parse_torch_value(bytes, "file"));
}

}  // namespace tg::fuzz
