#include "data/shard_header.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"

namespace tg {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

struct Format {
  std::int32_t magic, version;
  int token_bytes;
};
// Shards with uint16 ids, which llm.c uses for GPT-2's vocabulary, and with uint32 ids, for
// vocabularies above 65,536, which llm.c uses for Llama 3's.
constexpr Format formats[] = {{.magic = 20240520, .version = 1, .token_bytes = 2},
                              {.magic = 20240801, .version = 7, .token_bytes = 4}};

bool has_magic(std::int32_t value) {
  return std::ranges::find(formats, value, &Format::magic) != std::end(formats);
}

std::int32_t swapped(std::int32_t value) {
  return static_cast<std::int32_t>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
}

}  // namespace

std::array<std::int32_t, 3> shard_header_of(std::int64_t tokens, int token_bytes) {
  const auto* const format = std::ranges::find(formats, token_bytes, &Format::token_bytes);
  return {format->magic, format->version, static_cast<std::int32_t>(tokens)};
}

bool begins_as_shard(const File& file) {
  std::array<std::int32_t, 1> first{};
  const auto got = file.read_at(0, std::as_writable_bytes(std::span(first)));
  return got == sizeof first && (has_magic(first[0]) || has_magic(swapped(first[0])));
}

ShardHeader read_shard_header(const File& file) {
  const std::string& path = file.path();
  std::array<std::int32_t, shard_header_ints> header{};
  const std::int64_t got = file.read_at(0, std::as_writable_bytes(std::span(header)));
  REQUIRE(got == shard_header_bytes, ExitCode::bad_data,
          "Unexpected shard header for {}: expected {} bytes, found {}; the file is cut short",
          path, shard_header_bytes, got);
  const std::int32_t magic = header[0], version = header[1], tokens = header[2];
  const auto* const format = std::ranges::find_if(
      formats, [&](const Format& f) { return f.magic == magic && f.version == version; });
  if (format == std::end(formats)) {
    fail(ExitCode::bad_data, "Unexpected shard header for {}: expected {} {}, found {} {}; {}",
         path, formats[0].magic, formats[0].version, magic, version,
         has_magic(swapped(magic)) ? "the byte order is reversed: shards are little-endian"
                                   : "not a token shard of this format");
  }
  REQUIRE(tokens > 0, ExitCode::bad_data,
          "Unexpected shard header for {}: expected at least 1 token, found {}", path, tokens);
  const std::int64_t expected = shard_header_bytes + format->token_bytes * std::int64_t{tokens};
  const std::int64_t size = file.size();
  REQUIRE(size == expected, ExitCode::bad_data,
          "Shard size mismatch for {}: expected {} bytes, found {}; copy or download it again",
          path, expected, size);
  return {.tokens = tokens, .token_bytes = format->token_bytes};
}

}  // namespace tg
