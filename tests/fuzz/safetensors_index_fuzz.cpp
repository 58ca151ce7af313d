// The index of a model in several safetensors files.
#include "tests/fuzz/target.h"
#include "weights/weights_file.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {R"({"metadata":{"total_size":24},"weight_map":{"model.tok_emb.weight":)"
          R"("model-00001-of-00002.safetensors","model.smear.gate":)"
          R"("model-00002-of-00002.safetensors"}})"};
}

void read(std::string_view bytes) {
  static ScratchFile file("model.safetensors.index.json");
  file.put(bytes);
  read_safetensors_index(file.path());
}

}  // namespace tg::fuzz
