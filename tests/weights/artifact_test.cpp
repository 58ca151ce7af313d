// Artifacts against those that Python makes of the same weights: the same tensors, metadata and
// dequantised weights, to the bit.
#include <ATen/ATen.h>

#include <mutex>

#include "files/compressed.h"
#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "tests/weights/torch_python.h"
#include "weights/artifact/read_artifact.h"
#include "weights/artifact/write_artifact.h"
#include "weights/pickle/torch_file.h"

namespace tg::test {
namespace {

constexpr int64_t kPlenty = 10'000'000;
const std::string kImports =
    "import sys; sys.dont_write_bytecode = True\n"
    "sys.path.insert(0, '" SOURCE_DIR "/tests/weights')\nimport reference, torch\n";

// What Python makes for these tests, once. weights.pt: large
// tensors of each kind, shapes with remainders, rows of zeros, constants and outliers, sizes about
// and above the least scale; small ones on the limit. theirs.*: its artifacts. shared.ptz: tensors
// that share one storage, a small file that would become large in fp32. call_*: pickles that call.
const TempDir& pythons_files() {
  static const TempDir folder;
  static std::once_flag made;
  std::call_once(made, [] {
    run_torch(folder, kImports + R"(
torch.manual_seed(1)
n = torch.randn
w = {'blocks.0.attn.c_q.weight': n(257, 300) * 0.05, 'blocks.0.attn.proj.weight': n(300, 257) * 2,
     'blocks.0.mlp.fc.weight': n(33, 2001) * 0.3, 'blocks.0.mlp.proj.weight': n(2001, 33),
     'bigram.proj.weight': n(70000, 1), 've_shared.proj.weight': n(1, 70000) * 0.1,
     'tok_emb.weight': n(1024, 65), 'bigram.embed.weight': n(301, 300) * 0.005,
     'lm_head.weight': torch.zeros(300, 300), 'blocks.1.mlp.fc.weight': torch.full((300, 300), 0.7),
     'blocks.0.resid_mix': n(2, 40000), 'blocks.0.attn.q_gain': n(8), 'skip_weights': n(3, 7),
     'edge': n(256, 256), 'flat': n(65537) * 3, 'scalar': torch.tensor(0.1), 'none': n(0, 4)}
w['blocks.0.attn.c_q.weight'][0] = 0
w['blocks.0.mlp.fc.weight'][1] = -0.25
w['blocks.0.mlp.fc.weight'][:, 5] *= 30
w['tok_emb.weight'][3] *= 100
w['bf16'] = n(300, 300).bfloat16()
torch.save(w, 'weights.pt')
reference.save_int6(reference.int6_value(w), 'theirs.int6.ptz')
reference.save_int8(reference.int8_value(w), 'theirs.int8.ptz')

q, scale = torch.ones(1000, 1000, dtype=torch.int8), torch.ones(1000)
names = [f't{i}' for i in range(5000)]
stored = {f'{name}.{part}': t for name in names for part, t in (('q', q), ('scale', scale))}
reference.save_int6({'w': stored, 'm': {name: {'type': 'int6'} for name in names}}, 'shared.ptz')

import os
class Call:
    def __reduce__(self):
        return os.system, ('touch called',)
reference.save_int6({'w': {}, 'm': Call()}, 'call_m.ptz')
reference.save_int6({'w': Call(), 'm': {}}, 'call_w.ptz')
reference.save_int8({'__quant_format__': Call()}, 'call_int8.ptz')
)");
  });
  return folder;
}

std::vector<ArtifactTensor> artifact_tensors(const NamedTensors& weights) {
  const auto kind_of = [](const std::string& name) {
    if (name == "blocks.0.resid_mix") return Quantization::keep_fp32;
    for (const char* part : {".attn.", ".mlp.", ".proj."})
      if (name.find(part) != std::string::npos) return Quantization::int6;
    return Quantization::int8;
  };
  std::vector<ArtifactTensor> tensors;
  for (const auto& [name, tensor] : weights) tensors.push_back({name, tensor, kind_of(name)});
  return tensors;
}

const std::vector<std::string> kKeepFp32 = {"resid_mix", "q_gain", "skip_weight"};

TEST(Artifact, Int6IsThatOfPythonToTheBit) {
  const auto& folder = pythons_files();
  write_artifact_int6(artifact_tensors(load_torch(folder / "weights.pt").tensors),
                      folder / "ours.int6.ptz");
  run_torch(folder, kImports + R"(
theirs, ours = reference.load('theirs.int6.ptz'), reference.load('ours.int6.ptz')
wrong = reference.differences(ours, theirs)
assert not wrong, wrong
assert {'passthrough', 'passthrough_ctrl'} <= {k for k in ours['m'].values() if isinstance(k, str)}
torch.save(reference.int6_weights(theirs), 'read.pt')
)");
  const NamedTensors expected = load_torch(folder / "read.pt").tensors;
  for (const char* file : {"ours.int6.ptz", "theirs.int6.ptz"})
    expect_same(read_artifact(folder / file, kPlenty), expected);
}

// The optional dicts are left out where they would be empty.
TEST(Artifact, Int8ZlibIsThatOfPythonToTheBitAndOfSmallTensorsHasNoMetadataOfRows) {
  const auto& folder = pythons_files();
  const std::string small = folder / "small.int8.ptz";
  write_artifact_int8_zlib({{"q_gain", at::ones({3}), Quantization::keep_fp32}}, {"gain"}, small);
  const NamedTensors weights = load_torch(folder / "weights.pt").tensors;
  const auto stats =
      write_artifact_int8_zlib(artifact_tensors(weights), kKeepFp32, folder / "ours.int8.ptz");
  run_torch(folder, kImports + R"(
theirs, ours = reference.load('theirs.int8.ptz'), reference.load('ours.int8.ptz')
wrong = reference.differences(ours, theirs)
assert not wrong, wrong
torch.save(reference.int8_weights(theirs), 'read.pt')
bytes = lambda tensors: sum(t.nbytes for t in tensors.values())
payload = sum(bytes(theirs[part]) for part in ('quantized', 'scales', 'passthrough'))
torch.save({'payload': torch.tensor(payload), 'weights': torch.tensor(bytes(torch.load('weights.pt')))},
           'sizes.pt')
small = list(reference.load('small.int8.ptz'))
assert small == ['__quant_format__', 'quantized', 'scales', 'dtypes', 'passthrough'], small
)");
  expect_same(read_artifact(small, 3), {{"q_gain", at::ones({3})}});
  const NamedTensors expected = load_torch(folder / "read.pt").tensors;
  for (const char* file : {"ours.int8.ptz", "theirs.int8.ptz"})
    expect_same(read_artifact(folder / file, kPlenty), expected);

  const NamedTensors sizes = load_torch(folder / "sizes.pt").tensors;
  EXPECT_EQ(static_cast<int64_t>(stats.payload_bytes), sizes[0].second.item<int64_t>());
  EXPECT_EQ(static_cast<int64_t>(stats.weight_bytes), sizes[1].second.item<int64_t>());
  const std::string file = read_file(folder / "ours.int8.ptz");
  EXPECT_EQ(stats.file_bytes, file.size());
  EXPECT_EQ(stats.torch_bytes, decompress_zlib(file, 100 << 20, "f").size());
}

// An int6 artifact of a value that is almost one.
std::string int6_of(const PickleDict& weights, const PickleDict& metadata) {
  PickleDict all;
  all.add("w", weights);
  all.add("m", metadata);
  return compress_xz(torch_value_bytes(all));
}

void expect_refused(const TempDir& folder, const std::string& bytes, const std::string& message,
                    int64_t max_elements = kPlenty) {
  write_file(folder / "f.ptz", bytes);
  expect_error([&] { read_artifact(folder / "f.ptz", max_elements); }, ExitCode::bad_data, message);
}

PickleDict dict(std::vector<std::pair<std::string, PickleValue>> items) {
  return PickleDict{std::move(items)};
}

TEST(Artifact, WhatDoesNotFitTheFormatIsRefused) {
  const TempDir folder;
  const at::Tensor q = at::ones({2, 3}, at::kChar), scale = at::ones({2}, at::kHalf);
  const PickleDict six = dict({{"type", "int6"}}), meta = dict({{"a", six}});
  const PickleDict whole = dict({{"a.q", q}, {"a.scale", scale}});
  write_file(folder / "f.ptz", int6_of(whole, meta));
  expect_same(read_artifact(folder / "f.ptz", 6), {{"a", at::ones({2, 3})}});

  expect_error([&] { read_artifact(folder / "none", 6); }, ExitCode::missing_input, "none");
  expect_refused(folder, "", "expected an artifact");
  expect_refused(folder, "PK\3\4", "expected an artifact");
  expect_refused(folder, compress_xz("text"), "archive of torch.save");
  const auto refuse = [&](const PickleDict& weights, const PickleDict& metadata,
                          const std::string& message, int64_t max_elements = kPlenty) {
    expect_refused(folder, int6_of(weights, metadata), message, max_elements);
  };
  refuse(whole, meta, "at most the model's 5 elements", 5);
  refuse(dict({{"a.q", q}}), meta, "'w' 'a.scale': expected a tensor, found none");
  refuse(dict({{"a.q", q}, {"a.scale", scale}, {"b", q}}), meta, "'w' 'b': no part");
  refuse(dict({{"a.q", q}, {"a.scale", "one"}}), meta, "expected a tensor, found str");
  refuse(dict({{"a.q", q.to(at::kShort)}, {"a.scale", scale}}), meta, "found Short [2, 3]");
  refuse(dict({{"a.q", q}, {"a.scale", at::ones({3})}}), meta, "with Float [3]");
  refuse(dict({{"a.q", q}, {"a.scale", at::ones({2, 1})}}), meta, "with Float [2, 1]");
  refuse(dict({{"a.q", q}, {"a.scale", q[0][0]}}), meta, "with Char []");
  refuse(dict({{"a", q}}), dict({{"a", "passthrough"}}), "expected floating-point");
  refuse(dict({{"a", scale}}), dict({{"a", "passthrough_\n"}}), "found passthrough_\\x0a");
  refuse(whole, dict({{"a", dict({{"type", "int4"}})}}), "expected type int6 or int8, found int4");
  refuse(whole, dict({{"a", dict({})}}), "expected a 'type'");
  refuse(whole, dict({{"a", 6}}), "expected a dict, found int");
  expect_refused(folder, compress_xz(torch_value_bytes(dict({{"w", whole}}))),
                 "expected a dict 'm', found none");
  expect_refused(folder, compress_xz(torch_value_bytes(q)), "expected a dict, found tensor");

  const auto eight = [&](const std::string& format, const PickleDict& scales,
                         const PickleDict& passthrough) {
    return compress_zlib(torch_value_bytes(dict({{"__quant_format__", format},
                                                 {"quantized", dict({{"a", q}})},
                                                 {"scales", scales},
                                                 {"passthrough", passthrough}})));
  };
  const std::string format = "int8_clean_per_row_v1";
  const PickleDict scales = dict({{"a", scale}});
  write_file(folder / "f.ptz", eight(format, scales, {}));
  expect_same(read_artifact(folder / "f.ptz", 6), {{"a", at::ones({2, 3})}});
  expect_refused(folder, eight("int8", scales, {}), "expected the format int8_clean_per_row_v1");
  expect_refused(folder, eight(format, {}, {}), "'scales' 'a': expected a tensor, found none");
  expect_refused(folder, eight(format, dict({{"a", scale}, {"b", scale}}), {}), "'b': no part");
  expect_refused(folder, eight(format, scales, dict({{"a", scale}})), "'a' appears twice");
  expect_refused(folder, compress_zlib(torch_value_bytes(dict({{"w", whole}}))),
                 "expected '__quant_format__'");
}

TEST(Artifact, SharedBytesCountEachTime) {
  const auto& folder = pythons_files();
  expect_refused(folder, read_file(folder / "shared.ptz"), "at most the model's 3000000 elements",
                 3'000'000);
}

TEST(Artifact, APickleThatCallsIsRefusedAndCallsNothing) {
  const auto& folder = pythons_files();
  for (const char* name : {"call_m.ptz", "call_w.ptz", "call_int8.ptz"})
    expect_refused(folder, read_file(folder / name), "it names posix.system, which is no part");
  EXPECT_FALSE(std::filesystem::exists(folder / "called"));
}

TEST(Artifact, TruncatedDamagedAndOverlongFilesAreRefused) {
  const TempDir folder;
  const std::vector<ArtifactTensor> tensors = {
      {"a.attn.b", at::randn({300, 300}), Quantization::int6},
      {"c", at::randn({7}), Quantization::keep_fp32}};
  write_artifact_int6(tensors, folder / "six");
  write_artifact_int8_zlib(tensors, {}, folder / "eight");
  for (const char* name : {"six", "eight"}) {
    const std::string whole = read_file(folder / name);
    for (size_t i = 0; i < 20; ++i) {
      expect_refused(folder, whole.substr(0, whole.size() * i / 20), "f.ptz: expected");
      std::string flipped = whole;
      flipped[whole.size() * i / 20] ^= 4;
      expect_refused(folder, flipped, "f.ptz: expected");
    }
  }
  const std::string zeros(40 << 20, '\0');
  expect_refused(folder, compress_xz(zeros), "expected at most 33554836 bytes when unpacked", 101);
  expect_refused(folder, compress_zlib(zeros), "expected at most 33554836 bytes when unpacked",
                 101);
  expect_refused(folder, zeros, "expected at most 33554836 bytes, found 41943040", 101);
}

TEST(Artifact, AFullDiskLeavesNoFileAndKeepsAnOldOne) {
  const TempDir folder;
  const std::vector<ArtifactTensor> tensors = {{"a", at::randn({300, 300}), Quantization::int6}};
  write_file(folder / "old", "old");
  {
    const FileSizeLimit limit(4096);
    for (const char* name : {"new", "old"}) {
      expect_error([&] { write_artifact_int6(tensors, folder / name); }, ExitCode::io, name);
      expect_error([&] { write_artifact_int8_zlib(tensors, {}, folder / name); }, ExitCode::io,
                   name);
    }
  }
  EXPECT_EQ(read_file(folder / "old"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace tg::test
