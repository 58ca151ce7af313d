#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "data/validation_mask.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;

class HexVocabulary : public testing::Test {
 protected:
  HexVocabulary() {
    for (int byte = 0; byte < 256; ++byte) json[fmt::format("{:02x}", byte)] = 255 - byte;
    json["6162"] = 256;
  }
  std::vector<RankedPiece> read(const std::string& text, std::int64_t vocab_size) const {
    test::write_file(path, text);
    return read_hex_vocabulary(path, vocab_size);
  }
  void expect_refused(const nlohmann::json& other, const std::string& part) const {
    const auto error = error_of(ExitCode::bad_data, [&] { read(other.dump(), 300); });
    test::expect_start(error, "VALIDATION_MASK_VOCABULARY=" + path + ": ");
    expect_part(error, part);
  }
  nlohmann::json with(const std::string& key, const nlohmann::json& id) const {
    auto other = json;
    other[key] = id;
    return other;
  }

  test::TempDir dir;
  std::string path = dir / "vocabulary.json";
  nlohmann::json json;
};

TEST_F(HexVocabulary, HasBytesAndIdsWhichAreRanks) {
  std::map<std::string, TokenId> ids;
  for (const auto& piece : read(json.dump(), 257)) {
    EXPECT_EQ(piece.rank, piece.id);
    ids[piece.bytes] = piece.id;
  }
  EXPECT_EQ(ids.size(), 257u);
  EXPECT_EQ(ids.at("ab"), 256u);
  EXPECT_EQ(ids.at("A"), 255u - 'A');
  EXPECT_EQ(ids.at(std::string(1, '\0')), 255u);
}

TEST_F(HexVocabulary, OtherThingsAreRefusedWithTheEntry) {
  expect_refused(nlohmann::json::array({1, 2}), "expected a JSON object");
  for (const auto* const key : {"", "6", "616", "6g", "0x61", " 6", "-1"})
    expect_refused(with(key, 299), fmt::format("piece \"{}\": expected 1 to 1024 bytes", key));
  expect_refused(with(std::string(2050, 'a'), 299), "found 2050 characters");
  for (const nlohmann::json& id : {nlohmann::json(300), nlohmann::json(-1), nlohmann::json(2.5),
                                   nlohmann::json("7"), nlohmann::json(1ULL << 63)})
    expect_refused(with("6163", id), "expected an id below VOCAB_SIZE=300, found " + id.dump());
  expect_refused(with("6163", 256), "expected an id of its own, found 256");
  expect_refused(with("4A", 299), "piece \"4a\": expected other bytes than those before it");
}

TEST_F(HexVocabulary, EveryByteIsAPiece) {
  json.erase("0a");
  expect_refused(json, "the byte \"0a\" is no piece (expected each of the 256, found 256 pieces)");
}

TEST_F(HexVocabulary, NoJsonIsRefused) {
  expect_part(error_of(ExitCode::bad_data, [&] { read("{\"61\": ", 300); }), "expected JSON");
  EXPECT_THROW(read_hex_vocabulary(dir / "none.json", 300), Error);
}

}  // namespace
}  // namespace tg
