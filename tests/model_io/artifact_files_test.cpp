#include "model_io/artifact_files.h"

#include <ATen/ATen.h>

#include "tests/files/testing.h"
#include "weights/artifact/write_artifact.h"
#include "weights/pickle/torch_file.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

TEST(ArtifactFiles, TheFormatOfAFileIsThatOfItsContent) {
  const TempDir folder;
  const auto path = folder / "file";
  const NamedTensors weights = {{"a", at::randn({300, 300})}};
  const std::vector<ArtifactTensor> tensors = {{"a", weights[0].second, Quantization::int6}};
  write_artifact_int6(tensors, path);
  EXPECT_EQ(artifact_of(path), Artifact::int6);
  write_artifact_int8_zlib(tensors, {}, path);
  EXPECT_EQ(artifact_of(path), Artifact::int8_zlib);
  for (const auto compressor : {Compressor::lzma, Compressor::brotli, Compressor::pergroup}) {
    write_artifact_gptq({{"a", weights[0].second}}, compressor, path);
    EXPECT_EQ(artifact_of(path), Artifact::gptq) << choice_name(compressor);
  }
  save_safetensors(path, weights);
  EXPECT_EQ(artifact_of(path), Artifact::none);
  save_torch(path, weights);
  EXPECT_EQ(artifact_of(path), Artifact::none);
  for (const char* bytes : {"", "PGR", "some text of more than eight bytes"}) {
    write_file(path, bytes);
    EXPECT_EQ(artifact_of(path), Artifact::none) << bytes;
  }
}

}  // namespace
}  // namespace tg::test
