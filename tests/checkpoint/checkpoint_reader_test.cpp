#include <filesystem>

#include "base/progress.h"
#include "checkpoint/checkpoint_manifest.h"
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

constexpr const char *kFirst = "rank-00000.safetensors", *kSecond = "rank-00001.safetensors";

class CheckpointReader : public testing::Test {
 protected:
  CheckpointReader() {
    // Not in the file's order, which puts the wider dtype first.
    first_ = {{"bytes", at::arange(5, at::kByte)}, {"a", at::ones({3})}};
    second_ = {{"b", at::zeros({0})}};
    manifest_.files = {{kFirst, save_safetensors(folder_ / kFirst, first_)},
                       {kSecond, save_safetensors(folder_ / kSecond, second_)}};
  }

  NamedTensors read() const { return read_checkpoint(folder_.path(), manifest_); }
  void expect_damaged(const std::string& part) const {
    expect_error([&] { read(); }, ExitCode::bad_data, part);
  }

  const TempDir folder_;
  NamedTensors first_, second_;
  Manifest manifest_;
};

TEST_F(CheckpointReader, ReadsTheTensorsOfAllFiles) {
  auto expected = first_;
  expected.insert(expected.end(), second_.begin(), second_.end());
  expect_same(read(), expected);
}

TEST_F(CheckpointReader, ReadsEachByteOnceAndTellsItPartByPart) {
  const NamedTensors large{{"large", at::zeros({9 << 20}, at::kByte)}};
  manifest_.files = {{"large", save_safetensors(folder_ / "large", large)}};
  std::int64_t bytes = 0, most_at_once = 0;
  const ProgressListener listener([&](std::int64_t amount) {
    bytes += amount;
    most_at_once = std::max(most_at_once, amount);
  });
  read();
  EXPECT_EQ(bytes, std::ssize(read_file(folder_ / "large")));
  EXPECT_EQ(most_at_once, 4 << 20);
}

TEST_F(CheckpointReader, ReadsThoseWantedAndHashesAllBytes) {
  const auto wanted = [](std::string_view name) { return name != "a"; };
  expect_same(read_checkpoint(folder_.path(), manifest_, wanted), {first_[0], second_[0]});
  auto bytes = read_file(folder_ / kFirst);
  bytes[bytes.size() - 6] ^= 1;  // in "a", which precedes "bytes"
  write_file(folder_ / kFirst, bytes);
  expect_error([&] { read_checkpoint(folder_.path(), manifest_, wanted); }, ExitCode::bad_data,
               "bytes have changed");
}

TEST_F(CheckpointReader, ReadsToTheEndWhatIsRemovedMeanwhile) {
  auto expected = first_;
  expected.insert(expected.end(), second_.begin(), second_.end());
  const ProgressListener listener(
      [&](std::int64_t) { std::filesystem::remove_all(folder_.path()); });
  expect_same(read(), expected);
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(CheckpointReader, EveryFlippedByteIsFound) {
  const auto whole = read_file(folder_ / kFirst);
  const auto data = whole.size() - 3 * sizeof(float) - 5;
  for (size_t at = 0; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(folder_ / kFirst, bytes);
    expect_damaged(at < data ? kFirst : "rank-00000.safetensors: bytes have changed");
  }
}

TEST_F(CheckpointReader, CutLongerAndMissingFilesAreFound) {
  const auto whole = read_file(folder_ / kSecond);
  const auto size = std::to_string(whole.size());
  write_file(folder_ / kSecond, whole.substr(1));
  expect_damaged("expected " + size + " bytes, found " + std::to_string(whole.size() - 1));
  write_file(folder_ / kSecond, whole + "x");
  expect_damaged("rank-00001.safetensors: expected " + size);
  std::filesystem::remove(folder_ / kSecond);
  expect_damaged("rank-00001.safetensors: expected a file of " + size + " bytes, found none");
  std::filesystem::create_directory(folder_ / kSecond);
  expect_damaged("found none");
}

}  // namespace
}  // namespace tg::test
