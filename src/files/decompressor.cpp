#include "files/decompressor.h"

#include <brotli/decode.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <new>

namespace tg {
namespace {

constexpr int kWindowBits = 27;  // 128 MiB: preset 9 of xz needs 65 MiB, zstd --ultra -22 all 128
constexpr std::uint64_t kXzMemory = std::uint64_t{1} << kWindowBits;

constexpr std::string_view kDamaged = "it is damaged";
constexpr std::string_view kWrongMagic = "it begins otherwise";
constexpr std::string_view kTooMuchMemory = "it needs more than 128 MiB to unpack";

// Decodes gzip and zlib.
class Inflate final : public Decompressor {
 public:
  explicit Inflate(bool gzip) {
    constexpr int window_bits = 15, as_gzip = 16;
    if (inflateInit2(&stream_, gzip ? window_bits + as_gzip : window_bits) != Z_OK)
      throw std::bad_alloc();
  }
  ~Inflate() override { inflateEnd(&stream_); }

  Step step(std::string_view packed, std::span<char> to) override {
    // zlib's counts have 32 bits, and it only reads through this pointer, although it is not const.
    constexpr std::size_t max_count = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(std::min(packed.size(), max_count));
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min(to.size(), max_count));
    const auto in = stream_.avail_in, out = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    const bool fine = result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
    return {.taken = in - stream_.avail_in,
            .made = out - stream_.avail_out,
            .ended = result == Z_STREAM_END,
            .fault = fine ? std::string_view() : kDamaged};
  }

 private:
  z_stream stream_{};
};

class Unxz final : public Decompressor {
 public:
  Unxz() {
    const auto result = lzma_stream_decoder(&stream_, kXzMemory, 0);
    if (result == LZMA_MEM_ERROR) throw std::bad_alloc();
    assert(result == LZMA_OK);
  }
  ~Unxz() override { lzma_end(&stream_); }

  Step step(std::string_view packed, std::span<char> to) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
    stream_.avail_in = packed.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(to.data());
    stream_.avail_out = to.size();
    const auto result = lzma_code(&stream_, LZMA_RUN);
    return {.taken = packed.size() - stream_.avail_in,
            .made = to.size() - stream_.avail_out,
            .ended = result == LZMA_STREAM_END,
            .fault = fault_of(result)};
  }

 private:
  static std::string_view fault_of(lzma_ret result) {
    switch (result) {
      case LZMA_OK:
      case LZMA_STREAM_END:
      case LZMA_BUF_ERROR:
        return {};
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_FORMAT_ERROR:
        return kWrongMagic;
      case LZMA_MEMLIMIT_ERROR:
        return kTooMuchMemory;
      case LZMA_OPTIONS_ERROR:
        return "it uses options that this liblzma does not know";
      default:
        return kDamaged;
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Unzstd final : public Decompressor {
 public:
  Unzstd() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowBits);
  }
  ~Unzstd() override { ZSTD_freeDStream(stream_); }

  Step step(std::string_view packed, std::span<char> to) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const auto result = ZSTD_decompressStream(stream_, &out, &in);
    return {.taken = in.pos,
            .made = out.pos,
            .ended = result == 0,
            .fault = ZSTD_isError(result) != 0 ? fault_of(ZSTD_getErrorCode(result))
                                               : std::string_view()};
  }

 private:
  static std::string_view fault_of(ZSTD_ErrorCode error) {
    switch (error) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_prefix_unknown:
        return kWrongMagic;
      case ZSTD_error_frameParameter_windowTooLarge:
        return kTooMuchMemory;
      case ZSTD_error_dictionary_wrong:
        return "it needs a dictionary";
      default:
        return kDamaged;
    }
  }

  ZSTD_DStream* stream_;
};

// Needs no memory limit: brotli windows have at most 16 MiB.
class Unbrotli final : public Decompressor {
 public:
  Unbrotli() : state_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~Unbrotli() override { BrotliDecoderDestroyInstance(state_); }

  Step step(std::string_view packed, std::span<char> to) override {
    std::size_t available_in = packed.size(), available_out = to.size();
    auto in = reinterpret_cast<const std::uint8_t*>(packed.data());
    auto out = reinterpret_cast<std::uint8_t*>(to.data());
    const auto result =
        BrotliDecoderDecompressStream(state_, &available_in, &in, &available_out, &out, nullptr);
    return {.taken = packed.size() - available_in,
            .made = to.size() - available_out,
            .ended = result == BROTLI_DECODER_RESULT_SUCCESS,
            .fault = result == BROTLI_DECODER_RESULT_ERROR ? fault_of_state() : std::string_view()};
  }

 private:
  std::string_view fault_of_state() const {
    const auto code = BrotliDecoderGetErrorCode(state_);
    const bool no_memory = code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                           code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
    if (no_memory) throw std::bad_alloc();
    return kDamaged;
  }

  BrotliDecoderState* state_;
};

}  // namespace

std::unique_ptr<Decompressor> make_decompressor(Compression compression) {
  switch (compression) {
    case Compression::gzip:
      return std::make_unique<Inflate>(true);
    case Compression::zlib:
      return std::make_unique<Inflate>(false);
    case Compression::xz:
      return std::make_unique<Unxz>();
    case Compression::zstd:
      return std::make_unique<Unzstd>();
    case Compression::brotli:
      return std::make_unique<Unbrotli>();
  }
  assert(false);
  return nullptr;
}

std::string_view suffix_of(Compression compression) {
  constexpr std::array<std::string_view, 5> suffixes = {".gz", "zlib", ".xz", ".zst", "brotli"};
  return suffixes.at(static_cast<std::size_t>(compression));
}

std::string_view magic_of(Compression compression) {
  using namespace std::string_view_literals;
  constexpr std::array magics = {"\x1f\x8b"sv, "\x78\xda"sv, "\xfd\x37zXZ\0"sv,
                                 "\x28\xb5\x2f\xfd"sv, ""sv};
  return magics.at(static_cast<std::size_t>(compression));
}

}  // namespace tg
