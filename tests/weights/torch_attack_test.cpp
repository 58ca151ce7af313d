// Crafted torch.save files: each is refused with a line that says why, and none executes anything.
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "tests/weights/zip_testing.h"
#include "weights/pickle/torch_file.h"

namespace tg::test {
namespace {

using namespace std::string_literals;

void expect_refused(const std::string& bytes, const std::string& message) {
  SCOPED_TRACE(message);
  expect_error([&] { parse_torch_value(bytes, "f.pt"); }, ExitCode::bad_data, message);
}

std::string archive(const std::string& pickle, const std::string& storage = std::string(16, '\0')) {
  return crafted_zip({{"a/data.pkl", pickle}, {"a/data/0", storage}});
}

// A tensor of float storage 0 with the given pickled numel, offset, size and stride.
std::string tensor(const std::string& numel, const std::string& offset, const std::string& size,
                   const std::string& stride, const std::string& storage = "FloatStorage") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n"s + storage +
         "\nX\1\0\0\0"s + "0X\3\0\0\0cpu"s + numel + "tQ" + offset + size + stride +
         "\x89"
         "ccollections\nOrderedDict\n)RtR"s;
}

TEST(TorchAttack, ItsOwnCraftsAreValidUnlessTheyLie) {
  const auto value = parse_torch_value(
      archive("\x80\2" + tensor("K\4", "K\1", "K\3\x85", "K\1\x85") + "."), "f.pt");
  EXPECT_EQ(value.as_tensor("").sizes(), at::IntArrayRef({3}));
}

TEST(TorchAttack, PicklesAreRefusedForWhatTheyAre) {
  const std::string zero(1, '\0');
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected 2 more bytes"},
      {"\x80\4.", "protocol 2"},
      {"", "expected 1 more bytes"},
      {".", "one value"},
      {"NN.", "one value"},
      {"(N.", "one value"},
      {"N.N", "bytes after the end"},
      {"cos\nsystem\n(X\3\0\0\0id\ntR."s, "os.system"},
      {"cposix\nsystem\n.", "posix.system"},
      {"cbuiltins\neval\n.", "builtins.eval"},
      {"ctorch\nload\n.", "torch.load"},
      {"ctorch._utils\n_rebuild_tensor\n.", "torch._utils._rebuild_tensor"},
      {"cos\nsys", "without end"},
      {"(ios\nsystem\n.", "opcode 0x69"},
      {"\x93.", "opcode 0x93"},
      {"X\xff\xff\xff\xff", "expected 4294967295 more bytes, found 0"},
      {"\x8b\xff\xff\xff\x7f", "opcode 0x8b"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", "opcode 0x8d"},
      {"\x8a\xff"
       "123",
       "expected 255 more bytes, found 3"},
      {"\x8a\x09"
       "123456789.",
       "an int of 9 bytes"},
      {"h\0."s, "nothing is stored as 0"},
      {"j\xff\xff\xff\xff.", "nothing is stored as 4294967295"},
      {"q\0."s, "the stack is empty"},
      {"0.", "opcode 0x30"},
      {"t.", "a mark is missing"},
      {"N(\x85.", "the stack is empty"},
      {"N(a.", "the stack is empty"},
      {"(e.", "the stack is empty"},
      {"NNa.", "added to a None"},
      {"](NNu.", "added to a list"},
      {"}(Nu.", "1 items added to a dict"},
      {"}K\1Ns.", "a key of kind int"},
      {"}(X\1\0\0\0aNX\1\0\0\0aNu."s, "'a' appears twice"},
      {"NQ.", "names no storage"},
      {")Q.", "names no storage"},
      {"NNR.", "a call of a None"},
      {"ccollections\nOrderedDict\n(NtR.", "arguments"},
      {"ctorch._utils\n_rebuild_parameter\n)R.", "arguments"},
      {"ctorch\nFloatStorage\n)R.", "arguments"},
      {"ctorch\nFloatStorage\n.", "found a global"},
      {"N}b.", "no dict"},
      {"}Nb.", "no dict"},
      {"]q\0h\0a."s, "nested deeper"},
      {std::string(1000, ']') + std::string(999, 'a') + ".", "nested deeper"},
      {tensor("K\4", "K\1", "K\4\x85", "K\1\x85") + ".", "does not fit its storage of 4"},
      {tensor("K\4", "K\0"s, "K\2\x85", "K\4\x85") + ".", "does not fit its storage of 4"},
      {tensor("K\4", "K\0"s, "K\5\x85", "K\0\x85"s) + ".", "does not fit its storage of 4"},
      {tensor("K\4", "J\xff\xff\xff\xff", "K\1\x85", "K\1\x85") + ".", "offset -1"},
      {tensor("K\4", "K\0"s, "J\xff\xff\xff\xff\x85", "K\1\x85") + ".", "negative"},
      {tensor("K\4", "K\0"s, "K\1\x85", "J\xff\xff\xff\xff\x85") + ".", "negative"},
      {tensor("K\4", "K\0"s, "K\1\x85", ")") + ".", "stride []"},
      {tensor("K\4", "K\0"s, "\x8a\x08\0\0\0\0\0\0\0\x7f\x85"s, "K\1\x85") + ".", "stride [1]"},
      {tensor("K\4", "K\0"s, "K\2\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85") + ".",
       "does not fit"},
      {tensor("K\4", "K\2", "K\2\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85") + ".",
       "does not fit"},
      {tensor("K\4", "N", "K\2\x85", "K\1\x85") + ".", "expected int, found None"},
      {tensor("K\5", "K\0"s, "K\1\x85", "K\1\x85") + ".", "expected 5 elements of Float"},
      {tensor("J\xff\xff\xff\xff", "K\0"s, "K\1\x85", "K\1\x85") + ".", "expected -1 elements"},
      {tensor("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\0"s, "K\1\x85", "K\1\x85") + ".",
       "found 16 bytes"},
      {"(" + tensor("K\4", "K\0"s, "K\1\x85", "K\1\x85") +
           tensor("K\4", "K\0"s, "K\1\x85", "K\1\x85", "IntStorage") + "t.",
       "two dtypes"},
  };
  bool first = true;
  for (const auto& [pickle, message] : cases) {
    const bool with_protocol = !first && !pickle.starts_with("\x80");
    expect_refused(archive((with_protocol ? "\x80\2" : "") + pickle), message);
    first = false;
  }
}

// Doubling a tuple thirty times makes a billion values of a hundred bytes.
TEST(TorchAttack, MemoBombsAreRefused) {
  std::string doubling = "\x80\2)q"s + '\0';
  for (int i = 0; i < 30; ++i) {
    const char from = static_cast<char>(i), to = static_cast<char>(i + 1);
    doubling += "h"s + from + "h" + from + "\x86q" + to + "0";
  }
  expect_refused(archive(doubling + "."), "opcode 0x30");
  doubling = "\x80\2()q"s + '\0';
  for (int i = 0; i < 25; ++i)
    doubling += "h"s + static_cast<char>(i) + "h" + static_cast<char>(i) + "\x86q" +
                static_cast<char>(i + 1);
  expect_refused(archive(doubling + "t."), "more than 1000000 values");

  std::string text = "\x80\2(X\0\0\1\0"s + std::string(65536, 'x') + "q"s + '\0';
  for (int i = 0; i < 2000; ++i) text += "h"s + '\0';
  expect_refused(archive(text + "t."), "bytes of text");

  expect_refused(archive("\x80\2(" + std::string(1'000'001, 'N') + "t."),
                 "more than 1000000 values");
  std::string recalls = "\x80\2(Nq"s + '\0';
  for (int i = 0; i < 1'000'000; ++i) recalls += "h"s + '\0';
  expect_refused(archive(recalls + "t."), "the stack is too deep");
}

TEST(TorchAttack, ArchivesAreRefusedForWhatTheyAre) {
  const std::string pickle = "\x80\2N.";
  const std::string good = crafted_zip({{"a/data.pkl", pickle}});
  EXPECT_EQ(parse_torch_value(good, "f").kind(), "None");
  std::string flipped = good;
  flipped[30 + 10 + 2] = ')';
  expect_refused(flipped, "checksum");
  expect_refused("", "too short");
  expect_refused(good + "x", "its end is missing");
  expect_refused(crafted_zip({}), "data.pkl is missing");
  expect_refused(crafted_zip({{"a/other", ""}}), "data.pkl is missing");
  expect_refused(crafted_zip({{"data.pkl", pickle}}), "in no folder");
  expect_refused(crafted_zip({{"a/data.pkl", pickle}, {"b/data/0", ""}}), "outside 'a'");
  expect_refused(crafted_zip({{"a/data.pkl", pickle}, {"a/data.pkl", pickle}}), "appears twice");
  expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .method = 8}}), "compressed");
  expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .flags = 1}}), "encrypted");
  expect_refused(crafted_zip({{"a/data.pkl", pickle}, {"a/byteorder", "big"}}), "byteorder little");
  for (int64_t size : {int64_t{5}, int64_t{4'000'000'000}})
    expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .claimed_size = size}}),
                   "claims " + std::to_string(size));
  expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .claimed_size = 0xffffffff}}),
                 "zip64");
  expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .claimed_offset = 1 << 30}}),
                 "out of range");
  expect_refused(crafted_zip({{.name = "a/data.pkl", .bytes = pickle, .claimed_offset = 3}}),
                 "not where the directory says");
  // Directory entries that share one record would multiply a megabyte by their number.
  std::vector<CraftedRecord> shared{{"a/data/0", std::string(1 << 16, '\0')}};
  for (int i = 0; i < 4; ++i)
    shared.push_back({.name = "a/data/0", .claimed_size = 1 << 16, .claimed_offset = 0});
  expect_refused(crafted_zip(shared), "");
}

TEST(TorchAttack, BoolsMustBeZeroOrOne) {
  expect_refused(
      archive("\x80\2" + tensor("K\2", "K\0"s, "K\2\x85", "K\1\x85", "BoolStorage") + ".", "\1\2"),
      "bytes 0 and 1");
}

TEST(TorchAttack, IsRefusedWhereverItIsTruncated) {
  const TempDir folder;
  save_torch(folder / "w", every_kind());
  const std::string whole = read_file(folder / "w");
  for (size_t i = 0; i < 16; ++i) expect_refused(whole.substr(0, whole.size() * i / 16), "f.pt");
}

}  // namespace
}  // namespace tg::test
