#include "data/text_bytes.h"

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"

namespace tg {
namespace {

bool has_sidecar(const DataConfig& data) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(data.data_path, error))
    if (is_shard_name(entry.path().filename().string(), data.shard_prefix, kSidecarSplit))
      return true;
  return false;
}

// Returns the part of the path that is "*.bin" in the pattern.
std::string rest_of(const ShardSet& shards, int shard) {
  return shards.path(shard).substr(shards.pattern().rfind('*'));
}

void require_same_files(const ShardSet& sidecar, const ShardSet& tokens) {
  const auto beside = [](const ShardSet& shards, const std::string& rest) {
    return shards.pattern().substr(0, shards.pattern().rfind('*')) + rest;
  };
  for (int i = 0; i < tokens.count(); ++i) {
    const auto expected = beside(sidecar, rest_of(tokens, i));
    REQUIRE(i < sidecar.count() && sidecar.path(i) == expected, ExitCode::bad_data,
            "the validation shard {} has no byte sidecar of its name (expected {}, found {}); "
            "make all of them again, or set BYTE_COUNTS=tokenizer",
            tokens.path(i), expected, i < sidecar.count() ? sidecar.path(i) : "no more");
    REQUIRE(sidecar.tokens(i) == tokens.tokens(i), ExitCode::bad_data,
            "{} is not the byte sidecar of {} (expected {} entries, one a token, found {}); make "
            "it again, or set BYTE_COUNTS=tokenizer",
            sidecar.path(i), tokens.path(i), tokens.tokens(i), sidecar.tokens(i));
  }
  REQUIRE(sidecar.count() == tokens.count(), ExitCode::bad_data,
          "the byte sidecar {} has no validation shard (expected {}, found none); remove it, or "
          "set BYTE_COUNTS=tokenizer",
          sidecar.path(tokens.count()), beside(tokens, rest_of(sidecar, tokens.count())));
}

}  // namespace

std::shared_ptr<const TokenSource> open_sidecar(const DataConfig& data, const ShardSet& tokens) {
  if (data.byte_counts == ByteCountSource::tokenizer) return nullptr;
  if (!has_sidecar(data)) {
    REQUIRE(data.byte_counts == ByteCountSource::automatic, ExitCode::missing_input,
            "BYTE_COUNTS=sidecar: {} has no files {}_{}_*.bin (expected one beside each validation "
            "shard); make them with make_shards --byte-sidecar, or set BYTE_COUNTS=auto",
            data.data_path, data.shard_prefix, kSidecarSplit);
    return nullptr;
  }
  constexpr int kAnyCount = kNarrowIds;
  auto sidecar =
      std::make_shared<const ShardSet>(data.data_path, kSidecarSplit, kAnyCount, data.shard_prefix);
  require_same_files(*sidecar, tokens);
  return sidecar;
}

void check_sidecar(const TextBytes& bytes, std::int64_t begin, std::span<const TokenId> tokens) {
  if (!bytes.sidecar) return;
  std::vector<std::uint16_t> counts(tokens.size());
  bytes.sidecar->read_at(begin, counts);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    REQUIRE(tokens[i] != static_cast<TokenId>(bytes.bos_id) || counts[i] == 0, ExitCode::bad_data,
            "the byte sidecar {} is of other shards (expected 0 bytes for BOS, token {} of the "
            "split, found {}); make it again, or set BYTE_COUNTS=tokenizer",
            bytes.sidecar->pattern(), begin + static_cast<std::int64_t>(i), counts[i]);
  }
}

std::int64_t sidecar_bytes(const TokenSource& sidecar, std::int64_t begin, std::int64_t count) {
  std::vector<std::uint16_t> counts(static_cast<std::size_t>(count));
  sidecar.read_at(begin, counts);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace tg
