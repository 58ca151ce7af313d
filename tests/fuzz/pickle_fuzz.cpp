// The pickle inside a file of torch.save, which the zip's checksum would hide from mutations.
#include <ATen/ATen.h>

#include "base/error.h"
#include "store/pickle_reader.h"
#include "store/pickle_writer.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {write_pickle(small_dict()).bytes};
}

void read(std::string_view bytes) {
  touch(read_pickle(bytes, "file", [](std::string_view, c10::ScalarType dtype, int64_t numel) {
    REQUIRE(numel >= 0 && numel <= 64, ExitCode::bad_data, "a storage of {} elements", numel);
    return at::zeros({numel}, dtype);
  }));
}

}  // namespace tg::fuzz
