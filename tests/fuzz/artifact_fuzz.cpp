// An artifact as it is handed in: packed.
#include "files/compressed.h"
#include "tests/fuzz/artifact_seeds.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/artifact/read_artifact.h"
#include "weights/pickle/torch_file.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {compress_xz(torch_value_bytes(int6_value())),
          compress_zlib(torch_value_bytes(int8_value())),
          compress_xz(torch_value_bytes(gptq_value())),
          compress_brotli(torch_value_bytes(gptq_value()), 22)};
}

void read(std::string_view bytes) {
  static ScratchFile file;
  file.put(bytes);
  for (const auto& [name, tensor] : read_artifact(file.path(), 64)) touch(tensor);
}

}  // namespace tg::fuzz
