// The scan of a tokenizer's protobuf, before the library reads it.
#include "tests/fuzz/target.h"
#include "text/model_proto.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {fixture("data_odd.model").substr(3800), fixture("data_bpe.model").substr(7300),
          fixture("data_suffix.model").substr(5900)};
}

void read(std::string_view bytes) {
  scan_model_proto(bytes);
}

}  // namespace tg::fuzz
