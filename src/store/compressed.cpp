#include "store/compressed.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/progress.h"

namespace tg {
namespace {

constexpr size_t kPart = 1 << 20;
constexpr int kMostThreads = 16;           // some 25 MB each
constexpr uint64_t kXzMemory = 128 << 20;  // preset 9 needs 65 MiB
constexpr std::string_view kXzMagic("\xFD\x37\x7A\x58\x5A\0", 6), kZlibMagic("\x78\xDA");

// What a coder puts out, part by part.
class Output {
 public:
  Output(size_t max_size, std::string name)
      : part_(kPart), max_size_(max_size), name_(std::move(name)) {}

  unsigned char* part() { return part_.data(); }
  // The first `count` bytes of the part.
  void take(size_t count) {
    REQUIRE(count <= max_size_ - bytes_.size(), ExitCode::bad_data,
            "{}: expected at most {} bytes when unpacked, found more", name_, max_size_);
    bytes_.append(reinterpret_cast<const char*>(part_.data()), count);
    report_progress(0);
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::vector<unsigned char> part_;
  std::string bytes_;
  size_t max_size_;
  std::string name_;
};

struct XzStream : lzma_stream {
  XzStream() : lzma_stream(LZMA_STREAM_INIT) {}
  ~XzStream() { lzma_end(this); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;

  // All of `bytes`; returns how it ended.
  lzma_ret run(std::string_view bytes, Output& output) {
    next_in = reinterpret_cast<const uint8_t*>(bytes.data());
    avail_in = bytes.size();
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) {
      next_out = output.part();
      avail_out = kPart;
      result = lzma_code(this, LZMA_FINISH);
      output.take(kPart - avail_out);
    }
    return result;
  }
};

std::string_view meaning(lzma_ret result) {
  switch (result) {
    case LZMA_BUF_ERROR:
      return "it is cut short";
    case LZMA_FORMAT_ERROR:
      return "it begins otherwise";
    case LZMA_MEMLIMIT_ERROR:
      return "it needs more than 128 MiB to unpack";
    case LZMA_OPTIONS_ERROR:
      return "it uses options that this liblzma does not know";
    default:
      return "it is damaged";
  }
}

struct ZlibStream : z_stream {
  using Call = int (*)(z_stream*);
  using Code = int (*)(z_stream*, int);
  // `end` frees what an Init function of zlib has made of this.
  explicit ZlibStream(Call end) : z_stream{}, end_(end) {}
  ~ZlibStream() { end_(this); }
  ZlibStream(const ZlibStream&) = delete;
  ZlibStream& operator=(const ZlibStream&) = delete;

  // All of `bytes`, by parts, since zlib counts 32 bits; returns how it ended.
  int run(Code code, int at_end, std::string_view bytes, Output& output) {
    int result = Z_OK;
    while (result == Z_OK) {
      if (avail_in == 0) {
        const std::string_view part = bytes.substr(0, kPart);
        bytes.remove_prefix(part.size());
        // zlib's field is not const, though it only reads.
        next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
        avail_in = static_cast<uInt>(part.size());
      }
      next_out = output.part();
      avail_out = kPart;
      result = code(this, bytes.empty() ? at_end : Z_NO_FLUSH);
      output.take(kPart - avail_out);
    }
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    left = avail_in + bytes.size();
    return result;
  }

  size_t left = 0;  // bytes after the end

 private:
  Call end_;
};

}  // namespace

std::string compress_xz(std::string_view bytes) {
  Output output(SIZE_MAX, "");
  lzma_mt options{};
  options.preset = 6;
  options.check = LZMA_CHECK_CRC64;
  options.block_size = 1 << 20;
  options.threads = static_cast<uint32_t>(std::min(available_cores(), kMostThreads));
  XzStream stream;
  lzma_ret result = lzma_stream_encoder_mt(&stream, &options);
  if (result == LZMA_OK) result = stream.run(bytes, output);
  if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
  assert(result == LZMA_STREAM_END);
  return std::move(output).bytes();
}

std::string decompress_xz(std::string_view bytes, size_t max_size, const std::string& name) {
  Output output(max_size, name);
  XzStream stream;
  lzma_ret result = lzma_stream_decoder(&stream, kXzMemory, 0);
  if (result == LZMA_OK) result = stream.run(bytes, output);
  if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
  REQUIRE(result == LZMA_STREAM_END, ExitCode::bad_data, "{}: expected a whole .xz stream; {}",
          name, meaning(result));
  REQUIRE(stream.avail_in == 0, ExitCode::bad_data,
          "{}: expected one .xz stream, found {} bytes after it", name, stream.avail_in);
  return std::move(output).bytes();
}

std::string compress_zlib(std::string_view bytes) {
  Output output(SIZE_MAX, "");
  ZlibStream stream(deflateEnd);
  int result = deflateInit(&stream, 9);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  result = stream.run(deflate, Z_FINISH, bytes, output);
  assert(result == Z_STREAM_END);
  return std::move(output).bytes();
}

std::string decompress_zlib(std::string_view bytes, size_t max_size, const std::string& name) {
  Output output(max_size, name);
  ZlibStream stream(inflateEnd);
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  const int result = stream.run(inflate, Z_NO_FLUSH, bytes, output);
  REQUIRE(result == Z_STREAM_END, ExitCode::bad_data, "{}: expected a whole zlib stream; {}", name,
          result == Z_BUF_ERROR ? "it is cut short" : "it is damaged");
  REQUIRE(stream.left == 0, ExitCode::bad_data,
          "{}: expected one zlib stream, found {} bytes after it", name, stream.left);
  return std::move(output).bytes();
}

bool is_xz(std::string_view bytes) {
  return bytes.starts_with(kXzMagic);
}
bool is_zlib(std::string_view bytes) {
  return bytes.starts_with(kZlibMagic);
}

}  // namespace tg
