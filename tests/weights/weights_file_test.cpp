#include "weights/weights_file.h"

#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/pickle/torch_file.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

TEST(LoadWeights, KnowsTheFormatByContent) {
  const TempDir folder;
  save_torch(folder / "a", every_kind());
  save_safetensors(folder / "b.pt", every_kind());
  expect_same(load_weights(folder / "a").tensors, every_kind());
  expect_same(load_weights(folder / "b.pt").tensors, every_kind());
}

// Such a file begins as a pickle does: 80 02.
TEST(LoadWeights, TakesASafetensorsHeaderOf640BytesForWhatItIs) {
  const TempDir folder;
  const std::string name(640 - 60, 'n');
  save_safetensors(folder / "w", {{name, at::ones({2})}});
  const std::string bytes = read_file(folder / "w");
  ASSERT_EQ(bytes.substr(0, 2), "\x80\x02");
  expect_same(load_weights(folder / "w").tensors, {{name, at::ones({2})}});
}

TEST(LoadWeights, SaysWhatAFileIsNot) {
  const TempDir folder;
  expect_error([&] { load_weights(folder / "none"); }, ExitCode::missing_input, "none");
  write_file(folder / "w", "");
  expect_error([&] { load_weights(folder / "w"); }, ExitCode::bad_data, "found 0 bytes");
  write_file(folder / "w", "some text, long enough to have a length");
  expect_error([&] { load_weights(folder / "w"); }, ExitCode::bad_data, "safetensors header");
}

TEST(LoadWeights, ReadsSeveralFilesByTheirIndex) {
  const TempDir folder;
  const NamedTensors first{{"b", at::ones({2})}, {"c", at::zeros({3})}},
      second{{"a", at::ones({1})}};
  save_safetensors(folder / "model-00001-of-00002.safetensors", first, {{"format", "pt"}});
  save_safetensors(folder / "model-00002-of-00002.safetensors", second, {{"format", "pt"}});
  const auto path = folder / "model.safetensors.index.json";
  const auto put_index = [&](const std::string& map) {
    write_file(path, R"({"metadata": {"total_size": 24}, "weight_map": {)" + map + "}}\n");
  };
  const std::string of_first = R"("b": "model-00001-of-00002.safetensors", )",
                    of_both = of_first + R"("c": "model-00001-of-00002.safetensors", )";
  put_index(of_both + R"("a": "model-00002-of-00002.safetensors")");
  EXPECT_EQ(weights_format(path), WeightsFormat::safetensors_index);
  NamedTensors all = first;
  all.insert(all.end(), second.begin(), second.end());
  expect_same(load_weights(path).tensors, all);

  const std::pair<std::string, const char*> damaged[] = {
      {of_first + R"("a": "model-00002-of-00002.safetensors")", "has 'c', which"},
      {of_both + R"("d": "model-00002-of-00002.safetensors")", "has 'a', which"},
      {of_both + R"("a": "../secret.safetensors")", "expected a plain file name"},
      {of_both + R"("a": "/etc/passwd")", "expected a plain file name"},
      {of_both + R"("a": ".hidden")", "expected a plain file name"},
      {of_both + R"("a": 3)", "expected a string"},
      {"", "expected tensors"},
      {R"("a": )", "expected JSON"}};
  for (const auto& [map, part] : damaged) {
    put_index(map);
    expect_error([&] { load_weights(path); }, ExitCode::bad_data, part);
  }
  put_index(of_both + R"("a": "model-00003-of-00002.safetensors")");
  expect_error([&] { load_weights(path); }, ExitCode::missing_input, "model-00003-of-00002");
  write_file(path, R"({"weight_map": ["a"]})");
  expect_error([&] { load_weights(path); }, ExitCode::bad_data, "expected a JSON object");
}

// Its first bytes are an index's: a length of 0x7b.
TEST(LoadWeights, TakesASafetensorsHeaderOf123BytesForWhatItIs) {
  const TempDir folder;
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(0x7b, ' ');
  write_file(folder / "w", std::string("\x7b\0\0\0\0\0\0\0", 8) + header + std::string(4, '\0'));
  EXPECT_EQ(weights_format(folder / "w"), WeightsFormat::safetensors);
  expect_same(load_weights(folder / "w").tensors, {{"w", at::zeros({1})}});
}

TEST(CopyInto, RefusesNumbersThatAreNotFiniteByName) {
  for (const double number : {double{NAN}, double{INFINITY}, -double{INFINITY}, 1e300}) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      auto bank = at::ones({2, 3, 4}, dtype);
      bank[1][2][3].copy_(at::scalar_tensor(number, at::kDouble));
      NamedTensors into{{"none", at::empty({0, 4})},
                        {"gain", at::zeros({})},
                        {"bank", at::zeros({2, 3, 4}, at::kBFloat16)}};
      expect_error(
          [&] {
            copy_into({{"bank", bank}, {"gain", at::ones({})}, {"none", at::empty({0, 4})}}, into,
                      "w.pt");
          },
          ExitCode::internal, "w.pt: bank is not finite (expected finite numbers");
    }
  }
}

TEST(CopyInto, RefusesIntegers) {
  NamedTensors into{{"a", at::zeros({2})}};
  expect_error(
      [&] {
        copy_into({{"a", at::ones({2}, at::kLong)}}, into, "w.pt");
      },
      ExitCode::bad_data, "no floating-point numbers: a (Long)");
}

TEST(CopyInto, ConvertsAndKeepsTheDestinationsStorage) {
  NamedTensors into{{"a", at::zeros({2}, at::kBFloat16).requires_grad_()}, {"b", at::zeros({})}};
  const void* storage = into[0].second.const_data_ptr();
  copy_into({{"b", at::ones({})}, {"a", at::full({2}, 1.5, at::kDouble)}}, into, "f");
  EXPECT_EQ(into[0].second.const_data_ptr(), storage);
  EXPECT_EQ(into[0].second.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(into[0].second.is_leaf());
  EXPECT_TRUE(into[0].second.detach().equal(at::full({2}, 1.5, at::kBFloat16)));
  EXPECT_EQ(into[1].second.item<float>(), 1);
}

TEST(CopyInto, NamesAllMisfitsInOneLineAndCopiesNothing) {
  NamedTensors into{{"fits", at::zeros({1})}, {"shaped", at::zeros({2, 3})}};
  for (int i = 0; i < 7; ++i) into.emplace_back("lost" + std::to_string(i), at::zeros({1}));
  const NamedTensors from{
      {"fits", at::ones({1})}, {"shaped", at::ones({3, 2})}, {"extra\n", at::ones({1})}};
  expect_error([&] { copy_into(from, into, "w.pt"); }, ExitCode::bad_data,
               "w.pt: the weights do not fit the model: missing lost0, lost1, lost2, lost3, lost4, "
               "… and 2 more; unexpected extra\\x0a; other shapes: shaped (expected [2, 3], found "
               "[3, 2]); check");
  EXPECT_EQ(into[0].second.item<float>(), 0);
}

}  // namespace
}  // namespace tg::test
