// The header of a safetensors file, without the length and the data that a mutation would no longer
// fit.
#include "tests/fuzz/target.h"
#include "weights/safetensors/safetensors.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {R"({"__metadata__":{"format":"pt","a":"b\u00e9"},)"
          R"("w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
          R"("b":{"shape":[],"data_offsets":[12,13],"dtype":"BOOL"}}  )"};
}

void read(std::string_view bytes) {
  parse_safetensors_header(bytes, "file");
}

}  // namespace tg::fuzz
