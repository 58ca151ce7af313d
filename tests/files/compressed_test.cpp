#include "files/compressed.h"

#include <random>

#include "tests/files/testing.h"

namespace tg::test {
namespace {

constexpr size_t kPlenty = 64 << 20;

// Bytes as six-bit weights have them, over two blocks: 1.25 MiB.
const std::string& weights() {
  static const std::string drawn = [] {
    std::mt19937 random(7);
    std::normal_distribution<double> normal(0, 9);
    std::string bytes(5 << 18, '\0');
    for (char& byte : bytes) byte = static_cast<char>(std::lround(normal(random)));
    return bytes;
  }();
  return drawn;
}

struct Container {
  const char* name;
  std::string (*compress)(std::string_view);
  std::string (*decompress)(std::string_view, size_t, const std::string&);
  bool (*is)(std::string_view);
  bool has_checksum = true;
  size_t most = kPlenty;  // bytes for which it takes long enough
};

std::string brotli(std::string_view bytes) {
  return compress_brotli(bytes, 22);
}
bool begins_in_brotli(std::string_view bytes) {
  const bool empty = bytes == brotli("");
  return empty || !brotli_begin(bytes, 1).empty();
}

const Container kContainers[] = {
    {"xz", compress_xz, decompress_xz, is_xz},
    {"zlib", compress_zlib, decompress_zlib, is_zlib},
    {"brotli", brotli, decompress_brotli, begins_in_brotli, /*has_checksum=*/false, 100'000}};

TEST(Compressed, UnpacksWhatItPacked) {
  for (const auto& container : kContainers) {
    SCOPED_TRACE(container.name);
    for (const auto& bytes :
         {std::string(), std::string("x"), weights().substr(0, container.most)}) {
      const std::string packed = container.compress(bytes);
      EXPECT_TRUE(container.is(packed));
      EXPECT_EQ(container.decompress(packed, bytes.size(), "f"), bytes);
    }
  }
  EXPECT_FALSE(is_xz("PK\3\4") || is_zlib("PK\3\4") || is_xz("") || is_zlib(""));
}

// Nothing of what speeds xz up may cost more than a thousandth.
TEST(Compressed, IsReadAndMatchedInSizeByPython) {
  const TempDir folder;
  write_file(folder / "weights", weights());
  write_file(folder / "ours.xz", compress_xz(weights()));
  write_file(folder / "ours.zlib", compress_zlib(weights()));
  const std::string few = weights().substr(0, 100'000);
  write_file(folder / "ours.brotli", brotli(few));
  write_file(folder / "ours24.brotli", compress_brotli(few, 24));
  run_python(folder, R"(
import brotli, lzma, zlib
read = lambda name: open(name, 'rb').read()
weights = read('weights')
theirs = {'xz': lzma.compress(weights, preset=9), 'zlib': zlib.compress(weights, 9),
          'brotli': brotli.compress(weights[:100000], quality=11)}
unpacked = {'xz': lzma.decompress(read('ours.xz'), format=lzma.FORMAT_XZ),
            'zlib': zlib.decompress(read('ours.zlib')), 'brotli': brotli.decompress(read('ours.brotli'))}
assert brotli.decompress(read('ours24.brotli')) == weights[:100000]
assert len(lzma.compress(weights, preset=6)) == len(theirs['xz'])
for name in theirs:
    assert unpacked[name] == (weights[:100000] if name == 'brotli' else weights), name
    ours = len(read('ours.' + name))
    assert ours < 1.001 * len(theirs[name]), (name, ours, len(theirs[name]))
decoder = lzma.LZMADecompressor()
decoder.decompress(read('ours.xz'))
assert decoder.check == lzma.CHECK_CRC64
for name, bytes in theirs.items():
    open('theirs.' + name, 'wb').write(bytes)
)");
  EXPECT_EQ(decompress_xz(read_file(folder / "theirs.xz"), kPlenty, "f"), weights());
  EXPECT_EQ(decompress_zlib(read_file(folder / "theirs.zlib"), kPlenty, "f"), weights());
  EXPECT_EQ(decompress_brotli(read_file(folder / "theirs.brotli"), kPlenty, "f"), few);
}

void expect_refused(const Container& container, const std::string& bytes,
                    const std::string& message, size_t max_size = kPlenty) {
  expect_error([&] { container.decompress(bytes, max_size, "f.ptz"); }, ExitCode::bad_data,
               "f.ptz: " + message);
}

TEST(Compressed, ABombIsRefusedAtItsLimit) {
  for (const auto& container : kContainers) {
    SCOPED_TRACE(container.name);
    const std::string bomb = container.compress(std::string(32 << 20, '\0'));
    EXPECT_LT(bomb.size(), size_t{1} << 20);
    expect_refused(container, bomb, "expected at most 1000 bytes when unpacked, found more", 1000);
    const std::string exact = container.compress("12345");
    EXPECT_EQ(container.decompress(exact, 5, "f"), "12345");
    expect_refused(container, exact, "expected at most 4 bytes", 4);
  }
}

TEST(Compressed, IsRefusedWhereverItIsCutShortOrDamaged) {
  const std::string bytes = weights().substr(0, 5000);
  for (const auto& container : kContainers) {
    SCOPED_TRACE(container.name);
    const std::string packed = container.compress(bytes);
    for (size_t size = 0; size < packed.size(); size += 1 + packed.size() / 100)
      expect_refused(container, packed.substr(0, size), "expected a whole");
    for (size_t at = 0; container.has_checksum && at < packed.size();
         at += 1 + packed.size() / 100) {
      std::string flipped = packed;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      expect_refused(container, flipped, "expected a");
    }
    expect_refused(container, packed + "x", "expected one");
    expect_refused(container, packed + packed, "expected one");
    expect_refused(container, "some text", "expected a whole");
  }
}

TEST(Compressed, TheBeginUnpacksOfAStreamThatIsCutShort) {
  const std::string few = weights().substr(0, 100'000);
  const std::string xz = compress_xz(few), packed = brotli(few);
  for (const size_t count : {size_t{1}, size_t{4}, size_t{40000}}) {
    EXPECT_EQ(xz_begin(std::string_view(xz).substr(0, xz.size() / 2), count), few.substr(0, count));
    EXPECT_EQ(brotli_begin(std::string_view(packed).substr(0, packed.size() / 2), count),
              few.substr(0, count));
  }
  EXPECT_EQ(brotli_begin(brotli("abc"), 100), "abc");
  EXPECT_EQ(brotli_begin("", 4), "");
  EXPECT_EQ(xz_begin("some text", 4), "");
}

// An .xz whose header asks for a dictionary of 1.5 GiB.
TEST(Compressed, XzMayNotAskForMoreMemoryThanItsLimit) {
  const TempDir folder;
  run_python(folder, R"(
import lzma
filters = [{'id': lzma.FILTER_LZMA2, 'preset': 0, 'dict_size': 1 << 20}]
data = bytearray(lzma.compress(b'x' * 100, filters=filters))
import binascii
size = (data[12] + 1) * 4  # of the block's header: flags, filter, the size of its properties, the dictionary
at = data.index(bytes([0x21, 1]), 12) + 2
data[at] = 37
data[12 + size - 4 : 12 + size] = binascii.crc32(data[12 : 12 + size - 4]).to_bytes(4, 'little')
open('large.xz', 'wb').write(data)
)");
  expect_refused(kContainers[0], read_file(folder / "large.xz"),
                 "expected a whole .xz stream; it needs more than 128 MiB to unpack");
}

}  // namespace
}  // namespace tg::test
