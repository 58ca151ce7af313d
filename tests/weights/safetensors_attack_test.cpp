// Crafted safetensors files: each is refused with a line that says why.
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

std::string with_length(uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}

std::string file_of(const std::string& header, size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\1'));
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsAttack, IsRefusedForWhatItIs) {
  const std::string a = tensor("a", "F32", "[2]", "[0,8]");
  const std::string deep(100000, '[');
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "found 0 bytes"},
      {"1234567", "found 7 bytes"},
      {with_length(8'000'000'000, "{}"), "found a length of 8000000000"},
      {with_length(~uint64_t{0}, "{}"), "found a length of 18446744073709551615"},
      {with_length(3, "{}"), "at most 2 bytes, found a length of 3"},
      {with_length(0, ""), "begins with '{'"},
      {file_of(" {}", 0), "begins with '{'"},
      {file_of("[]", 0), "begins with '{'"},
      {file_of("{", 0), "no valid JSON"},
      {file_of("{} x", 0), "no valid JSON"},
      {file_of("{\"a\xff\":1}", 0), "no valid JSON"},
      {file_of("{" + a + "," + a + "}", 8), "'a' appears twice"},
      {file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "'__metadata__' appears twice"},
      {file_of("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0), "twice"},
      {file_of("{\"__metadata__\":{\"k\":1}}", 0), "has a number in 'k'"},
      {file_of("{\"__metadata__\":{\"k\":[\"v\"]}}", 0), "has a list in 'k'"},
      {file_of("{\"a\":1}", 0), "'a' is a number, expected an object"},
      {file_of("{\"a\":" + deep, 0), "'a' is a list, expected an object"},
      {file_of("{\"a\":{\"shape\":" + deep, 0), "has a list in 'shape'"},
      {file_of("{\"a\":{\"shape\":{}}}", 0), "has an object in 'shape'"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0), "'a' lacks data_offsets"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0), "'dtype' twice"},
      {file_of("{\"a\":{\"dtype\":\"F32\",\"extra\":1}}", 0), "field 'extra'"},
      {file_of("{" + tensor("a", "F8_E4M3", "[1]", "[0,1]") + "}", 1), "dtype 'F8_E4M3'"},
      {file_of("{" + tensor("a", "F32", "[-1]", "[0,8]") + "}", 8), "a negative number in 'shape'"},
      {file_of("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), "a fraction in 'shape'"},
      {file_of("{" + tensor("a", "F32", "[null]", "[0,8]") + "}", 8), "null in 'shape'"},
      {file_of("{" + tensor("a", "F32", "[9223372036854775808]", "[0,8]") + "}", 8), "2^63"},
      {file_of("{" + tensor("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0),
       "impossible shape"},
      {file_of("{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0),
       "impossible shape"},
      {file_of("{" + tensor("a", "F32", "[2]", "[0]") + "}", 8), "1 data_offsets, expected 2"},
      {file_of("{" + tensor("a", "F32", "[2]", "[0,8,9]") + "}", 8), "3 data_offsets"},
      {file_of("{" + tensor("a", "F32", "[2]", "[0,16]") + "}", 8), "expected within 0 to 8"},
      {file_of("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8), "bytes 8 to 0"},
      {file_of("{" + tensor("a", "F32", "[3]", "[0,8]") + "}", 8), "expected 12 bytes, found 8"},
      {file_of("{" + a + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12),
       "'b' begins at byte 4, expected 8"},
      {file_of("{" + a + "," + tensor("b", "F32", "[2]", "[0,8]") + "}", 8),
       "'b' begins at byte 0, expected 8"},
      {file_of("{" + a + "," + tensor("b", "F32", "[1]", "[12,16]") + "}", 16),
       "'b' begins at byte 12, expected 8"},
      {file_of("{" + a + "}", 12), "trailing bytes"},
      {with_length(a.size() + 2, "{" + a + "}" + "1234567"), "expected within 0 to 7"},
      {file_of("{" + tensor("a", "BOOL", "[1]", "[0,1]") + "}", 0) + "\2", "bytes 0 and 1"},
      {file_of("{\"a\\nb\":1}", 0), "'a\\x0ab'"},
  };
  const TempDir folder;
  for (const auto& [bytes, message] : cases) {
    SCOPED_TRACE(message);
    write_file(folder / "w", bytes);
    expect_error([&] { load_safetensors(folder / "w"); }, ExitCode::bad_data, message);
  }
}

TEST(SafetensorsAttack, RefusesMoreDimensionsThanTorchHas) {
  const TempDir folder;
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  write_file(folder / "w", file_of("{" + tensor("a", "U8", shape + "]", "[0,1]") + "}", 1));
  expect_error([&] { load_safetensors(folder / "w"); }, ExitCode::bad_data, "dimensions");
}

TEST(SafetensorsAttack, IsRefusedWhereverItIsTruncated) {
  const TempDir folder;
  save_safetensors(folder / "w", every_kind());
  const std::string whole = read_file(folder / "w");
  for (size_t i = 0; i < 16; ++i) {
    write_file(folder / "cut", whole.substr(0, whole.size() * i / 16));
    expect_error([&] { load_safetensors(folder / "cut"); }, ExitCode::bad_data, "cut");
  }
}

TEST(SafetensorsAttack, WhatIsNoFileIsMissing) {
  const TempDir folder;
  expect_error([&] { load_safetensors(folder / "none"); }, ExitCode::missing_input, "none");
  expect_error([&] { load_safetensors(folder.path()); }, ExitCode::missing_input,
               "expected a regular file, found a folder");
}

}  // namespace
}  // namespace tg::test
