// The pickle inside a file of torch.save, which the zip's checksum would hide from mutations.
#include <ATen/ATen.h>

#include "base/error.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/pickle/pickle.h"

namespace tg::fuzz {

using namespace std::string_literals;

namespace {

at::Tensor small_storage(std::string_view, c10::ScalarType dtype, int64_t numel) {
  REQUIRE(numel >= 0 && numel <= 64, ExitCode::bad_data, "a storage of {} elements", numel);
  return at::zeros({numel}, dtype);
}

}  // namespace

std::vector<std::string> seeds() {
  PickleDict wrapped;
  wrapped.add("model", small_dict());
  wrapped.add("step", 3);
  // An object of a class that is not known: NumPy's int64(7), in short.
  const std::string object = "cnumpy\nscalar\ncnumpy\ndtype\nX\2\0\0\0i8\x85R}bK\7\x86R"s;
  const auto pickle = write_pickle(wrapped).bytes;
  const auto three = pickle.rfind("K\3");
  return {write_pickle(small_dict()).bytes, pickle,
          pickle.substr(0, three) + object + pickle.substr(three + 2)};
}

void read(std::string_view bytes) {
  try {
    for (const auto& [name, tensor] : read_state_dict(bytes, "file", small_storage).tensors)
      touch(tensor);
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::bad_data) throw;
  }
  touch(read_pickle(bytes, "file", small_storage));
}

}  // namespace tg::fuzz
