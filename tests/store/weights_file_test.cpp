#include "store/weights_file.h"

#include "store/safetensors.h"
#include "store/torch_file.h"
#include "tests/store/store_testing.h"
#include "tests/store/tensor_testing.h"

namespace tg {
namespace {

TEST(LoadWeights, KnowsTheFormatByContent) {
  const TempFolder folder;
  save_torch(folder / "a", every_kind());
  save_safetensors(folder / "b.pt", every_kind());
  expect_same(load_weights(folder / "a"), every_kind());
  expect_same(load_weights(folder / "b.pt"), every_kind());
}

// The first bytes of such a file are those of a pickle: 80 02.
TEST(LoadWeights, TakesASafetensorsHeaderOf640BytesForWhatItIs) {
  const TempFolder folder;
  const std::string name(640 - 60, 'n');
  save_safetensors(folder / "w", {{name, at::ones({2})}});
  const std::string bytes = file_bytes(folder / "w");
  ASSERT_EQ(bytes.substr(0, 2), "\x80\x02");
  expect_same(load_weights(folder / "w"), {{name, at::ones({2})}});
}

TEST(LoadWeights, SaysWhatAFileIsNot) {
  const TempFolder folder;
  expect_error([&] { load_weights(folder / "none"); }, ExitCode::missing_input, "none");
  put_file(folder / "w", "");
  expect_error([&] { load_weights(folder / "w"); }, ExitCode::bad_data, "found 0 bytes");
  put_file(folder / "w", "some text, long enough to have a length");
  expect_error([&] { load_weights(folder / "w"); }, ExitCode::bad_data, "safetensors header");
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
}  // namespace tg
