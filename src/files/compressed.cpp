#include "files/compressed.h"

#include <brotli/encode.h>
#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/deleter.h"
#include "base/error.h"
#include "base/progress.h"
#include "files/decompressor.h"

namespace tg {
namespace {

constexpr size_t kPart = 1 << 20;
constexpr int kMaxThreads = 16;  // about 25 MB each

// Collects what an encoder or decoder produces, part by part.
class Output {
 public:
  Output(size_t max_size, std::string name)
      : part_(kPart), max_size_(max_size), name_(std::move(name)) {}

  std::span<char> part() { return part_; }
  // Appends the first `count` bytes of the part.
  void take(size_t count) {
    REQUIRE(count <= max_size_ - bytes_.size(), ExitCode::bad_data,
            "{}: expected at most {} bytes when unpacked, found more", name_, max_size_);
    bytes_.append(part_.data(), count);
    report_progress(0);
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::vector<char> part_;
  std::string bytes_;
  size_t max_size_;
  std::string name_;
};

// Decodes exactly one complete stream, with nothing after it.
std::string decompress(Compression compression, std::string_view bytes, size_t max_size,
                       const std::string& name) {
  Output output(max_size, name);
  const auto stream = make_decompressor(compression);
  Decompressor::Step step;
  do {
    step = stream->step(bytes, output.part());
    bytes.remove_prefix(step.taken);
    output.take(step.made);
  } while (!step.ended && step.fault.empty() && step.taken + step.made > 0);
  REQUIRE(step.ended, ExitCode::bad_data, "{}: expected a whole {} stream; {}", name,
          suffix_of(compression), step.fault.empty() ? "it is cut short" : step.fault);
  REQUIRE(bytes.empty(), ExitCode::bad_data, "{}: expected one {} stream, found {} bytes after it",
          name, suffix_of(compression), bytes.size());
  return std::move(output).bytes();
}

std::string begin_of(Compression compression, std::string_view bytes, size_t count) {
  std::string begin(count, '\0');
  const auto stream = make_decompressor(compression);
  size_t made = 0;
  Decompressor::Step step;
  do {
    step = stream->step(bytes, std::span(begin).subspan(made));
    bytes.remove_prefix(step.taken);
    made += step.made;
  } while (!step.ended && step.fault.empty() && step.taken + step.made > 0 && made < count);
  begin.resize(made);
  return begin;
}

}  // namespace

std::string compress_xz(std::string_view bytes) {
  Output output(SIZE_MAX, "");
  lzma_mt options{};
  options.preset = 6;
  options.check = LZMA_CHECK_CRC64;
  options.block_size = 1 << 20;
  options.threads = static_cast<uint32_t>(std::min(available_cores(), kMaxThreads));
  lzma_stream stream = LZMA_STREAM_INIT;
  const std::unique_ptr<lzma_stream, Deleter<lzma_end>> owner(&stream);
  lzma_ret result = lzma_stream_encoder_mt(&stream, &options);
  stream.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
  stream.avail_in = bytes.size();
  while (result == LZMA_OK) {
    stream.next_out = reinterpret_cast<uint8_t*>(output.part().data());
    stream.avail_out = kPart;
    result = lzma_code(&stream, LZMA_FINISH);
    output.take(kPart - stream.avail_out);
  }
  if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
  assert(result == LZMA_STREAM_END);
  return std::move(output).bytes();
}

// Compresses in parts, since zlib's counts have 32 bits.
std::string compress_zlib(std::string_view bytes) {
  Output output(SIZE_MAX, "");
  z_stream stream{};
  if (deflateInit(&stream, 9) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, Deleter<deflateEnd>> owner(&stream);
  int result = Z_OK;
  while (result == Z_OK) {
    if (stream.avail_in == 0) {
      const std::string_view part = bytes.substr(0, kPart);
      bytes.remove_prefix(part.size());
      // zlib only reads through this pointer, although it is not const.
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
      stream.avail_in = static_cast<uInt>(part.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(output.part().data());
    stream.avail_out = kPart;
    result = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    output.take(kPart - stream.avail_out);
  }
  assert(result == Z_STREAM_END);
  return std::move(output).bytes();
}

std::string compress_brotli(std::string_view bytes, int window_bits) {
  Output output(SIZE_MAX, "");
  const std::unique_ptr<BrotliEncoderState, Deleter<BrotliEncoderDestroyInstance>> state(
      BrotliEncoderCreateInstance(nullptr, nullptr, nullptr));
  if (!state) throw std::bad_alloc();
  BrotliEncoderSetParameter(state.get(), BROTLI_PARAM_QUALITY, BROTLI_MAX_QUALITY);
  BrotliEncoderSetParameter(state.get(), BROTLI_PARAM_LGWIN, static_cast<uint32_t>(window_bits));
  size_t available_in = bytes.size();
  auto in = reinterpret_cast<const uint8_t*>(bytes.data());
  while (!BrotliEncoderIsFinished(state.get())) {
    size_t available_out = kPart;
    auto out = reinterpret_cast<uint8_t*>(output.part().data());
    if (!BrotliEncoderCompressStream(state.get(), BROTLI_OPERATION_FINISH, &available_in, &in,
                                     &available_out, &out, nullptr))
      throw std::bad_alloc();
    output.take(kPart - available_out);
  }
  return std::move(output).bytes();
}

std::string decompress_xz(std::string_view bytes, size_t max_size, const std::string& name) {
  return decompress(Compression::xz, bytes, max_size, name);
}
std::string decompress_zlib(std::string_view bytes, size_t max_size, const std::string& name) {
  return decompress(Compression::zlib, bytes, max_size, name);
}
std::string decompress_brotli(std::string_view bytes, size_t max_size, const std::string& name) {
  return decompress(Compression::brotli, bytes, max_size, name);
}

std::string xz_begin(std::string_view bytes, size_t count) {
  return begin_of(Compression::xz, bytes, count);
}
std::string brotli_begin(std::string_view bytes, size_t count) {
  return begin_of(Compression::brotli, bytes, count);
}

bool is_xz(std::string_view bytes) {
  return bytes.starts_with(magic_of(Compression::xz));
}
bool is_zlib(std::string_view bytes) {
  return bytes.starts_with(magic_of(Compression::zlib));
}

}  // namespace tg
