// usage: artifact_tool write|read|stored IN OUT
//
// write: IN is a torch.save file {"tensors": {NAME: tensor}, "kinds": {NAME: int6|int8|control}},
// OUT becomes the int6 artifact. read, stored: IN is an artifact, OUT becomes a torch.save file of
// its weights, or of its tensors as they are stored.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/program.h"
#include "files/file.h"
#include "weights/artifact/read_artifact.h"
#include "weights/artifact/write_artifact.h"
#include "weights/pickle/torch_file.h"

namespace tg {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 30, kMaxBytes = int64_t{1} << 32;

Quantization kind_named(const std::string& name) {
  if (name == "int6") return Quantization::int6;
  return name == "int8" ? Quantization::int8 : Quantization::keep_fp32;
}

void write(const std::string& in, const std::string& out) {
  const PickleValue value = parse_torch_value(read_whole_file(in, kMaxBytes), in);
  const PickleDict& all = value.as_dict(in);
  std::vector<ArtifactTensor> tensors;
  for (const auto& [name, tensor] : all.find("tensors")->as_dict(in).items) {
    const std::string& kind = all.find("kinds")->as_dict(in).find(name)->as_string(in);
    tensors.push_back({name, tensor.as_tensor(in), kind_named(kind)});
  }
  const ArtifactStats stats = write_artifact_int6(tensors, out);
  fmt::print(
      "bytes: weights {} payload {} torch {} file {}; ms: quantize {:.0f} serialize {:.0f} "
      "compress {:.0f} write {:.0f}\n",
      stats.weight_bytes, stats.payload_bytes, stats.torch_bytes, stats.file_bytes,
      stats.quantize_ms, stats.serialize_ms, stats.compress_ms, stats.write_ms);
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] {
    const std::string verb = argc == 4 ? argv[1] : "";
    REQUIRE(verb == "write" || verb == "read" || verb == "stored", tg::ExitCode::usage,
            "expected write, read or stored, an input and an output");
    if (verb == "write")
      tg::write(argv[2], argv[3]);
    else if (verb == "read")
      tg::save_torch(argv[3], tg::read_artifact(argv[2], tg::kMaxElements));
    else
      tg::save_torch(argv[3], tg::read_stored_artifact(argv[2], tg::kMaxBytes));
  });
}
