#include "weights/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "tests/weights/torch_python.h"

namespace tg::test {
namespace {

TEST(Safetensors, ReadsBackEveryDtypeShapeAndStride) {
  const TempDir folder;
  const Metadata metadata{{"step", "7"}, {"quoted \"key\"", "ü\n"}};
  save_safetensors(folder / "w.safetensors", every_kind(), metadata);
  Metadata found;
  const NamedTensors tensors = load_safetensors(folder / "w.safetensors", &found);
  expect_same(tensors, every_kind());
  EXPECT_EQ(found, metadata);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(tensor.is_contiguous()) << name;
}

TEST(Safetensors, AlignsHeaderAndTensors) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", every_kind());
  const std::string bytes = read_file(folder / "w.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  for (const auto& [name, tensor] : every_kind())
    EXPECT_EQ(header[name]["data_offsets"][0].get<uint64_t>() % tensor.element_size(), 0u) << name;
}

TEST(Safetensors, HoldsNoTensorsAtAll) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", {});
  EXPECT_TRUE(load_safetensors(folder / "w.safetensors").empty());
}

TEST(Safetensors, IsReadByPythonAndReadsPythons) {
  const TempDir folder;
  save_safetensors(folder / "ours.safetensors", every_kind(), {{"step", "7"}});
  run_torch(folder, R"(
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
w = load_file('ours.safetensors')
assert len(w) == 16, len(w)
ramp = torch.arange(12.).reshape(3, 4) - 3
names = {'Bool': 'bool', 'Byte': 'uint8', 'Char': 'int8', 'Short': 'int16', 'Int': 'int32',
         'Long': 'int64', 'Half': 'float16', 'BFloat16': 'bfloat16', 'Float': 'float32',
         'Double': 'float64'}
for ours, theirs in names.items():
    t = w['all.' + ours]
    assert t.dtype == getattr(torch, theirs), (ours, t.dtype)
    assert torch.equal(t, (ramp + 3 if ours == 'Byte' else ramp).to(t.dtype)), ours
assert torch.equal(w['transposed'], ramp.t()) and w['scalar'].shape == () and w['scalar'] == 0.1
assert w['empty'].shape == (0, 3)
with safe_open('ours.safetensors', 'pt') as f: assert f.metadata() == {'step': '7'}
save_file(w, 'theirs.safetensors', metadata={'step': '7'})
)");
  Metadata metadata;
  NamedTensors found = load_safetensors(folder / "theirs.safetensors", &metadata);
  NamedTensors expected = every_kind();
  const auto by_name = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(found.begin(), found.end(), by_name);
  std::sort(expected.begin(), expected.end(), by_name);
  expect_same(found, expected);
  EXPECT_EQ(metadata, (Metadata{{"step", "7"}}));
}

TEST(Safetensors, KeepsTheOldFileOnAFullDisk) {
  const TempDir folder;
  save_safetensors(folder / "w.safetensors", {{"w", at::ones({2})}});
  const std::string old = read_file(folder / "w.safetensors");
  {
    const FileSizeLimit limit(4096);
    expect_error(
        [&] {
          save_safetensors(folder / "w.safetensors", {{"w", at::ones({10000})}});
        },
        ExitCode::io, "w.safetensors");
  }
  EXPECT_EQ(read_file(folder / "w.safetensors"), old);
}

TEST(Safetensors, RefusesWhatItCannotName) {
  const TempDir folder;
  const at::Tensor one = at::ones({1});
  expect_error(
      [&] {
        save_safetensors(folder / "w", {{"w", one}, {"w", one}});
      },
      ExitCode::internal, "twice");
  expect_error(
      [&] {
        save_safetensors(folder / "w", {{"w", one.to(at::kComplexFloat)}});
      },
      ExitCode::internal, "no dtype");
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

}  // namespace
}  // namespace tg::test
