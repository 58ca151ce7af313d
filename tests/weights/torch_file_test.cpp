#include "weights/pickle/torch_file.h"

#include "files/crc32.h"
#include "files/zip_reader.h"
#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "tests/weights/torch_python.h"

namespace tg::test {
namespace {

PickleValue nested() {
  PickleDict type, meta, weights, all;
  type.add("type", "int6");
  meta.add("a", "passthrough");
  meta.add("b", type);
  meta.add("c", type);
  weights.add("a", at::arange(3));
  all.add("w", weights);
  all.add("m", meta);
  PickleList numbers;
  for (int64_t number :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{65536}, int64_t{-1},
        int64_t{1} << 31, -(int64_t{1} << 31), -(int64_t{1} << 31) - 1, INT64_MAX, INT64_MIN})
    numbers.items.emplace_back(number);
  PickleList pair{{PickleValue(0.1), PickleValue()}, true};
  all.add("numbers", numbers);
  all.add("pair", pair);
  all.add("true", true);
  all.add("empty", PickleDict{});
  return all;
}

void expect_nested(const PickleValue& found) {
  const PickleDict& all = found.as_dict("");
  const PickleDict expected = nested().as_dict("");
  ASSERT_EQ(all.items.size(), expected.items.size());
  EXPECT_TRUE(all.find("w")->as_dict("").find("a")->as_tensor("").equal(at::arange(3)));
  const PickleDict& meta = all.find("m")->as_dict("");
  EXPECT_EQ(meta.find("a")->as_string(""), "passthrough");
  EXPECT_EQ(meta.find("c")->as_dict("").find("type")->as_string(""), "int6");
  const auto& numbers = std::get<PickleList>(*all.find("numbers"));
  const auto& wanted = std::get<PickleList>(*expected.find("numbers"));
  ASSERT_EQ(numbers.items.size(), wanted.items.size());
  for (size_t i = 0; i < numbers.items.size(); ++i)
    EXPECT_EQ(std::get<int64_t>(numbers.items[i]), std::get<int64_t>(wanted.items[i]));
  const auto& pair = std::get<PickleList>(*all.find("pair"));
  EXPECT_TRUE(pair.is_tuple);
  EXPECT_EQ(std::get<double>(pair.items.at(0)), 0.1);
  EXPECT_EQ(pair.items.at(1).kind(), "None");
  EXPECT_TRUE(std::get<bool>(*all.find("true")));
  EXPECT_TRUE(all.find("empty")->as_dict("").items.empty());
}

TEST(TorchFile, ReadsBackEveryDtypeShapeAndStride) {
  const TempDir folder;
  save_torch(folder / "w.pt", every_kind());
  expect_same(load_torch(folder / "w.pt").tensors, every_kind());
}

TEST(TorchFile, ReadsBackNestedPlainDataFromFilesAndMemory) {
  const TempDir folder;
  save_torch_value(folder / "v.pt", nested());
  expect_nested(parse_torch_value(read_file(folder / "v.pt"), "v.pt"));
  const std::string bytes = torch_value_bytes(nested());
  EXPECT_EQ(bytes, read_file(folder / "v.pt"));
  expect_nested(parse_torch_value(bytes, "memory"));
}

// Enough strings for memo indices of four bytes.
TEST(TorchFile, HoldsManyTensors) {
  const TempDir folder;
  NamedTensors tensors;
  for (int i = 0; i < 700; ++i) tensors.emplace_back("t" + std::to_string(i), at::full({2}, i));
  save_torch(folder / "w.pt", tensors);
  expect_same(load_torch(folder / "w.pt").tensors, tensors);
}

TEST(TorchFile, IsReadByPythonAndReadsWhatPythonSaves) {
  const TempDir folder;
  save_torch(folder / "ours.pt", every_kind());
  save_torch_value(folder / "value.pt", nested());
  run_torch(folder, R"(
import collections, torch
w = torch.load('ours.pt', weights_only=True)
assert type(w) is dict and len(w) == 16, w.keys()
ramp = torch.arange(12.).reshape(3, 4) - 3
names = {'Bool': 'bool', 'Byte': 'uint8', 'Char': 'int8', 'Short': 'int16', 'Int': 'int32',
         'Long': 'int64', 'Half': 'float16', 'BFloat16': 'bfloat16', 'Float': 'float32',
         'Double': 'float64'}
for ours, theirs in names.items():
    t = w['all.' + ours]
    assert t.dtype == getattr(torch, theirs), (ours, t.dtype)
    assert torch.equal(t, (ramp + 3 if ours == 'Byte' else ramp).to(t.dtype)), ours
assert torch.equal(w['transposed'], ramp.t()) and torch.equal(w['part'], ramp[1:, 1:4:2])
assert w['scalar'].shape == () and w['scalar'] == 0.1 and w['empty'].shape == (0, 3)
torch.load('ours.pt', weights_only=True, mmap=True)
v = torch.load('value.pt', weights_only=True)
assert v['m'] == {'a': 'passthrough', 'b': {'type': 'int6'}, 'c': {'type': 'int6'}}, v
assert v['numbers'] == [0, 255, 256, 65535, 65536, -1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, -2**63]
assert v['pair'] == (0.1, None) and v['true'] is True and v['empty'] == {}
assert torch.equal(v['w']['a'], torch.arange(3))

ramp = torch.arange(12.).reshape(3, 4)
plain = {'f': ramp, 't': ramp.t(), 'part': ramp[1:, 1:], 'corner': ramp[3:, 4:],
         'bf16': ramp.bfloat16(), 'half': ramp.half(), 'param': torch.nn.Parameter(ramp[0]),
         'bool': ramp > 5, 'scalar': torch.tensor(7)}
torch.save(plain, 'plain.pt')
torch.save(collections.OrderedDict(plain), 'ordered.pt')
torch.save(torch.nn.Sequential(torch.nn.Linear(2, 2)).state_dict(), 'module.pt')
torch.save({'w': plain, 'm': {'a': 'passthrough', 'b': {'type': 'int6'}}, 'x': [1, -2.5, None, True],
            'big': 2**40, 'one': [1], 't': (1, 2, 3, 4), 'empty': ()}, 'nested.pt')
torch.save(ramp, 'tensor.pt')
torch.save({1: ramp}, 'keys.pt')
torch.save({'w': torch.zeros(1).expand(1000)}, 'expanded.pt')
torch.save({'w': torch.ones(2, dtype=torch.complex64)}, 'complex.pt')
torch.save(torch.nn.Linear(2, 2), 'object.pt')
torch.save(plain, 'old.pt', _use_new_zipfile_serialization=False)
torch.save(plain, 'protocol4.pt', pickle_protocol=4)
torch.serialization.set_crc32_options(False)
torch.save(plain, 'nocrc.pt')
)");
  const at::Tensor ramp = at::arange(12, at::kFloat).reshape({3, 4});
  const NamedTensors plain{{"f", ramp},
                           {"t", ramp.t()},
                           {"part", ramp.slice(0, 1).slice(1, 1)},
                           {"corner", at::empty({0, 0})},
                           {"bf16", ramp.to(at::kBFloat16)},
                           {"half", ramp.to(at::kHalf)},
                           {"param", ramp[0]},
                           {"bool", ramp > 5},
                           {"scalar", at::scalar_tensor(7, at::kLong)}};
  for (const char* name : {"plain.pt", "ordered.pt", "nocrc.pt"}) {
    SCOPED_TRACE(name);
    const NamedTensors found = load_torch(folder / name).tensors;
    expect_same(found, plain);
    EXPECT_EQ(found[0].second.storage().data(), found[1].second.storage().data());
    EXPECT_FALSE(found[6].second.requires_grad());
  }
  const NamedTensors module = load_torch(folder / "module.pt").tensors;
  ASSERT_EQ(module.size(), 2u);
  EXPECT_EQ(module[0].first, "0.weight");

  const PickleValue value = parse_torch_value(read_file(folder / "nested.pt"), "nested.pt");
  const PickleDict& all = value.as_dict("");
  EXPECT_EQ(all.find("m")->as_dict("").find("b")->as_dict("").find("type")->as_string(""), "int6");
  EXPECT_EQ(std::get<int64_t>(*all.find("big")), int64_t{1} << 40);
  EXPECT_EQ(std::get<PickleList>(*all.find("x")).items.size(), 4u);
  EXPECT_EQ(std::get<PickleList>(*all.find("one")).items.size(), 1u);
  EXPECT_EQ(std::get<PickleList>(*all.find("t")).items.size(), 4u);
  EXPECT_TRUE(
      parse_torch_value(read_file(folder / "tensor.pt"), "tensor.pt").as_tensor("").equal(ramp));

  const std::pair<const char*, const char*> refused[] = {
      {"tensor.pt", "expected a dict, found tensor"},
      {"keys.pt", "a key of kind int"},
      {"expanded.pt", "does not fit"},
      {"complex.pt", "torch.ComplexFloatStorage"},
      {"object.pt", "torch.nn.modules.linear.Linear"},
      {"old.pt", "from before 1.6"},
      {"protocol4.pt", "protocol 2"}};
  for (const auto& [name, message] : refused)
    expect_error([&] { load_torch(folder / name); }, ExitCode::bad_data, message);
}

// As trainers save them: beside an optimizer's state, with keys that are no str, and objects.
TEST(TorchFile, FindsTheStateDictAmongWhatElseARunKeeps) {
  const TempDir folder;
  run_torch(folder, R"(
import argparse, collections, numpy, pathlib, torch
w = collections.OrderedDict(a=torch.arange(3.), b=torch.ones(2, dtype=torch.bfloat16))
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(layer.parameters())
layer(torch.ones(2)).sum().backward()
optimizer.step()
beside = {'optimizer': optimizer.state_dict(), 'step': numpy.int64(7), 'loss': numpy.float64(2.5),
          'args': argparse.Namespace(lr=1e-3, out=pathlib.PurePosixPath('x')), 'rng': numpy.arange(4),
          'counts': collections.defaultdict(int, x=1), 'seen': {1, 2}, 'dtype': torch.float16,
          'scale': torch.tensor(1.), 'complex': torch.ones(2, dtype=torch.complex64), 5: 'five',
          'bytes': b'ab', 'big': 2**40}
torch.save(w, 'plain.pt')
for key in ('model', 'state_dict', 'model_state_dict'):
    torch.save({**beside, key: w}, key + '.pt')
torch.save({'step': 3, 'model': {'epoch': 1, 'state_dict': w}}, 'twice.pt')
torch.save({'model': 'gpt', 'state_dict': w}, 'named.pt')
torch.save({'model': {'layers': 2}, 'state_dict': w}, 'config.pt')
torch.save({**w, 'step': numpy.int64(3), 'name': 'gpt', 'args': argparse.Namespace()}, 'flat.pt')
torch.save({'model': w, 'state_dict': w}, 'both.pt')
torch.save({'model': {'a': 1}, 'step': 3}, 'none.pt')
torch.save({'model': {'a': torch.ones(2, dtype=torch.complex64)}}, 'inside.pt')
)");
  const NamedTensors expected{{"a", at::arange(3, at::kFloat)},
                              {"b", at::ones({2}, at::kBFloat16)}};
  using Keys = std::vector<std::string>;
  const Keys beside{"optimizer", "step",  "loss",  "args",    "rng",   "counts",
                    "seen",      "dtype", "scale", "complex", "bytes", "big"};
  const std::tuple<const char*, Keys, Keys> cases[] = {
      {"plain.pt", {}, {}},
      {"model.pt", {"model"}, beside},
      {"state_dict.pt", {"state_dict"}, beside},
      {"model_state_dict.pt", {"model_state_dict"}, beside},
      {"twice.pt", {"model", "state_dict"}, {"step", "epoch"}},
      {"named.pt", {"state_dict"}, {"model"}},
      {"config.pt", {"state_dict"}, {"model"}},
      {"flat.pt", {}, {"step", "name", "args"}}};
  for (const auto& [name, under, left_out] : cases) {
    SCOPED_TRACE(name);
    const auto found = load_torch(folder / name);
    expect_same(found.tensors, expected);
    EXPECT_EQ(found.under, under);
    EXPECT_EQ(found.left_out, left_out);
  }
  const std::pair<const char*, const char*> refused[] = {
      {"both.pt", "tensors under both 'model' and 'state_dict'"},
      {"none.pt", "expected a dict of tensors, found none"},
      {"inside.pt", "torch.ComplexFloatStorage"}};
  for (const auto& [name, message] : refused)
    expect_error([&] { load_torch(folder / name); }, ExitCode::bad_data, message);
}

TEST(TorchFile, KeepsTheOldFileOnAFullDisk) {
  const TempDir folder;
  save_torch(folder / "w.pt", {{"w", at::ones({2})}});
  const std::string old = read_file(folder / "w.pt");
  for (rlim_t limit : {100, 4096, 40000}) {  // in the pickle, in a tensor, in the directory
    const FileSizeLimit limited(limit);
    expect_error(
        [&] {
          save_torch(folder / "w.pt", {{"w", at::ones({9800})}});
        },
        ExitCode::io, "w.pt");
  }
  EXPECT_EQ(read_file(folder / "w.pt"), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(TorchFile, HandsOutWhatTheSinkThrows) {
  EXPECT_THROW(write_torch_value([](const void*, size_t) { throw 7; }, nested()), int);
}

TEST(Crc32, IsThatOfZip) {
  EXPECT_EQ(crc32("123456789", 9), 0xCBF43926u);
  EXPECT_EQ(crc32("", 0), 0u);
}

}  // namespace
}  // namespace tg::test
