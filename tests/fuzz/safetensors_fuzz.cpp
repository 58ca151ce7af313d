// A safetensors file.
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  const ScratchFile file;
  save_safetensors(file.path(), small_tensors(), {{"k", "v"}});
  return {file_bytes(file.path())};
}

void read(std::string_view bytes) {
  Metadata metadata;
  for (const auto& [name, tensor] : read_safetensors(MemorySource(bytes, "file"), &metadata))
    touch(tensor);
}

}  // namespace tg::fuzz
