#include "text/foreign_format.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "files/magic.h"

namespace tg {
namespace {

using namespace std::string_view_literals;

enum class Order : std::uint8_t { little, big };

std::uint32_t unit_at(std::string_view text, std::size_t at, std::size_t bytes, Order order) {
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte =
        static_cast<unsigned char>(text[at + (order == Order::big ? i : bytes - 1 - i)]);
    unit = unit << 8 | byte;
  }
  return unit;
}

bool is_surrogate(std::uint32_t unit) {
  return is_high_surrogate(unit) || is_low_surrogate(unit);
}
bool is_text(std::uint32_t point) {
  const bool is_control = point < 0x80 && is_control_character(static_cast<char>(point));
  const bool is_none = (point & 0xfffe) == 0xfffe || (point >= 0xfdd0 && point < 0xfdf0);
  return !is_control && !is_none;
}

// Accepts characters of the assigned planes only; two UTF-16 units with a line end never read as
// such a character.
bool is_utf32(std::string_view text, Order order) {
  for (std::size_t at = 0; at + 4 <= text.size(); at += 4) {
    const auto point = unit_at(text, at, 4, order);
    const auto plane = point >> 16;
    if ((plane > 3 && plane != 14) || is_surrogate(point) || !is_text(point)) return false;
  }
  return text.size() >= 4;
}

// In UTF-16 text the high bytes take fewer values than the low bytes: a script is one range or a
// few.
bool has_few_upper_halves(std::string_view text, Order order) {
  std::bitset<256> upper, lower;
  for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
    const auto unit = unit_at(text, at, 2, order);
    upper.set(unit >> 8);
    lower.set(unit & 0xff);
  }
  return 4 * upper.count() <= 3 * lower.count();
}

bool is_utf16(std::string_view text, Order order) {
  for (std::size_t at = 0; at + 2 <= text.size(); at += 2) {
    const auto unit = unit_at(text, at, 2, order);
    if (!is_surrogate(unit)) {
      if (!is_text(unit)) return false;
      continue;
    }
    if (!is_high_surrogate(unit)) return false;
    if (at + 4 > text.size()) break;  // its low surrogate is beyond the sample
    const auto low = unit_at(text, at += 2, 2, order);
    if (!is_low_surrogate(low)) return false;
  }
  return text.size() >= 2 && has_few_upper_halves(text, order);
}

struct Format {
  Magic magic;
  std::string_view name;
  const char* command;  // placeholders: FILE, OUT (without its last SUFFIX), NAME and KEY
  const char* or_else = "";
};

#define PRINT_ROWS(imports, batches)                                               \
  "python3 -c \"import json, " imports "; [print(json.dumps(r)) for b in " batches \
  " for r in b.to_pylist()]\" >OUT.jsonl"

constexpr const char* kParquet =
    PRINT_ROWS("pyarrow.parquet as p", "p.ParquetFile('FILE').iter_batches(columns=['KEY'])");
constexpr const char* kReadParquet =
    "; or set up with scripts/setup.sh --parquet and build again: then files .parquet are read";
constexpr const char* kArrowFile =
    PRINT_ROWS("pyarrow as a",
               "a.ipc.open_file(a.memory_map('FILE')).read_all().select(['KEY']).to_batches()");
constexpr const char* kArrowStream =
    PRINT_ROWS("pyarrow as a",
               "a.ipc.open_stream(a.memory_map('FILE')).read_all().select(['KEY']).to_batches()");
constexpr const char* kFeather =
    PRINT_ROWS("pyarrow.feather as f", "f.read_table('FILE', columns=['KEY']).to_batches()");
constexpr const char* kNumpy =
    "python3 -c \"import json, numpy as n; [print(json.dumps({'KEY': str(t)})) for t in "
    "n.load('FILE')]\" >OUT.jsonl";
constexpr const char* kUnzip = "python3 -m zipfile -e FILE OUT (a folder, which is read whole)";
constexpr const char* kUntar = "mkdir OUT && tar -xf FILE -C OUT (a folder, which is read whole)";

constexpr const char* kRecode = "iconv -f NAME -t UTF-8 FILE >OUT.utf8SUFFIX";
constexpr const char* kUnpack = "unpack it once";

constexpr Format kFormats[] = {
    {"PAR1"sv, 0, "Parquet", kParquet, kReadParquet},
    {"PARE"sv, 0, "Parquet, encrypted", kParquet},
    {"ARROW1"sv, 0, "an Arrow file", kArrowFile},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream", kArrowStream},
    {"FEA1"sv, 0, "a Feather file", kFeather},
    {"\x93NUMPY"sv, 0, "a NumPy array", kNumpy},
    {"PK\3\4"sv, 0, "a zip archive", kUnzip},
    {"PK\5\6"sv, 0, "an empty zip archive", kUnzip},
    {"PK\7\x8"sv, 0, "a zip archive", kUnzip},
    {"ustar"sv, 257, "a tar archive", kUntar},
    {"BZh"sv, 0, "bzip2 data", "bzip2 -dk FILE"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive", "7z x -oOUT FILE (a folder, which is read whole)"},
    {"\x04\x22\x4d\x18"sv, 0, "lz4 data", "lz4 -d FILE"},
    {"%PDF-"sv, 0, "PDF", "pdftotext FILE"},
    // UTF-32's byte order mark begins like UTF-16's.
    {"\xff\xfe\0\0"sv, 0, "UTF-32", kRecode},
    {"\0\0\xfe\xff"sv, 0, "UTF-32", kRecode},
    {"\xff\xfe"sv, 0, "UTF-16", kRecode},
    {"\xfe\xff"sv, 0, "UTF-16", kRecode},
    // The first compression is already removed here, so this is a second one.
    {"\x1f\x8b"sv, 0, "packed twice, with gzip inside", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, 0, "packed twice, with zstd inside", kUnpack},
    {"\xfd\x37zXZ\0"sv, 0, "packed twice, with xz inside", kUnpack},
};

std::string command_for(const Format& format, const UnpackedFile& file,
                        const std::string& text_key) {
  const std::string unpacked(without_compression(file.path()));
  const std::filesystem::path out(unpacked);
  const auto suffix = out.has_extension() ? out.extension().string() : ".txt";
  auto command = replaced(format.command, "KEY", text_key);
  command = replaced(replaced(command, "NAME", format.name), "SUFFIX", suffix);
  command = replaced(command, "OUT", std::filesystem::path(out).replace_extension().string());
  // tar decompresses by itself.
  const bool as_it_is =
      !file.is_compressed() || format.command == kUntar || format.command == kUnpack;
  command = replaced(command, "FILE", as_it_is ? file.path() : unpacked);
  return as_it_is ? command : "unpack it, then " + command;
}

std::optional<Format> format_of(std::string_view head) {
  const auto* const known =
      std::ranges::find_if(kFormats, [&](const Format& one) { return one.magic.is_in(head); });
  if (known != std::end(kFormats)) return *known;
  const auto encoding = wide_encoding(head);
  if (encoding.empty()) return {};
  return Format{.magic = {}, .name = encoding, .command = kRecode};
}

}  // namespace

std::string_view wide_encoding(std::string_view sample) {
  sample = sample.substr(0, kForeignHead);
  if (!has_control_characters(sample)) return {};
  if (is_utf32(sample, Order::little)) return "UTF-32LE";
  if (is_utf32(sample, Order::big)) return "UTF-32BE";
  if (is_utf16(sample, Order::little)) return "UTF-16LE";
  if (is_utf16(sample, Order::big)) return "UTF-16BE";
  return {};
}

void refuse_foreign_format(std::string_view head, const UnpackedFile& file,
                           const std::string& text_key) {
  const auto format = format_of(head);
  if (!format) return;
  fail(ExitCode::bad_data, "{} is {} (expected text in UTF-8 or JSON); convert it: {}{}",
       file.path(), format->name, command_for(*format, file, text_key), format->or_else);
}

}  // namespace tg
