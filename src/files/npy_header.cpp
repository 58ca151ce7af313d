#include "files/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"

namespace tg {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
// NumPy pads the header of an integer array to 128 bytes or less.
constexpr std::int64_t largest_dictionary = 1 << 20;

std::string read_text(const File& file, std::int64_t at, std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const auto got = file.read_at(at, std::as_writable_bytes(std::span(text)));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

// Parser of the dictionary. Each take_ function leaves unconsumed what it does not recognize.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  // Returns nullopt if the text is no dictionary of a .npy file.
  std::optional<NpyHeader> take() {
    bool has_dtype = false, has_order = false, has_shape = false;
    NpyHeader header;
    if (!take("{")) return {};
    while (!take("}")) {
      const auto key = take_string();
      if (!key || !take(":")) return {};
      auto& seen = *key == "descr" ? has_dtype : *key == "shape" ? has_shape : has_order;
      const bool known = *key == "descr"           ? take_dtype(header.dtype)
                         : *key == "shape"         ? take_shape(header.shape)
                         : *key == "fortran_order" ? take_bool(header.fortran_order)
                                                   : false;
      if (!known || std::exchange(seen, true)) return {};
      if (!take(",") && !rest_.starts_with('}')) return {};
    }
    skip_space();
    if (!rest_.empty() || !has_dtype || !has_order || !has_shape) return {};
    return header;
  }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    skip_space();
    return true;
  }

  std::optional<std::string> take_string() {
    if (!rest_.starts_with('\'') && !rest_.starts_with('"')) return {};
    const auto end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return {};
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  // A list, possibly nested, is the dtype of a structure.
  bool take_dtype(std::string& dtype) {
    if (!rest_.starts_with('[')) {
      const auto text = take_string();
      dtype = text.value_or("");
      return !dtype.empty();
    }
    int depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      depth += rest_[i] == '[' ? 1 : rest_[i] == ']' ? -1 : 0;
      if (depth > 0) continue;
      rest_.remove_prefix(i + 1);
      return true;
    }
    return false;
  }

  bool take_bool(bool& value) {
    value = take("True");
    return value || take("False");
  }

  bool take_shape(std::vector<std::int64_t>& shape) {
    if (!take("(")) return false;
    while (!take(")")) {
      std::int64_t length = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), length);
      if (error != std::errc{} || length < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(length);
      if (!take(",") && !rest_.starts_with(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

}  // namespace

bool begins_as_npy(const File& file) {
  return read_text(file, 0, std::ssize(npy_magic)) == npy_magic;
}

NpyHeader read_npy_header(const File& file) {
  const auto& path = file.path();
  REQUIRE(begins_as_npy(file), ExitCode::bad_data,
          "{} is no .npy file (expected it to begin with \\x93NUMPY); write it with numpy.save",
          path);
  constexpr std::int64_t version_at = std::ssize(npy_magic), length_at = version_at + 2;
  // Stays zero, which is no version, if the file ends earlier.
  std::array<unsigned char, 6> fixed{};
  file.read_at(version_at, std::as_writable_bytes(std::span(fixed)));
  const int major = fixed[0], minor = fixed[1];
  REQUIRE(major >= 1 && major <= 3 && minor == 0, ExitCode::bad_data,
          "{} is of an unknown .npy version (expected 1.0, 2.0 or 3.0, found {}.{})", path, major,
          minor);
  const int length_bytes = major == 1 ? 2 : 4;
  std::int64_t length = 0;
  for (int i = length_bytes; i > 0; --i)
    length = length << 8 | fixed[static_cast<std::size_t>(1 + i)];
  const std::int64_t begin = length_at + length_bytes;
  const std::int64_t available = std::max<std::int64_t>(0, file.size() - begin);
  REQUIRE(length <= std::min(largest_dictionary, available), ExitCode::bad_data,
          "{}: the .npy header is cut short or too long (expected a dictionary of at most {} "
          "bytes, found {})",
          path, std::min(largest_dictionary, available), length);
  auto header = Dictionary(read_text(file, begin, length)).take();
  REQUIRE(header, ExitCode::bad_data,
          "{}: the .npy header is damaged (expected a dictionary of descr, fortran_order and "
          "shape); write the file again with numpy.save",
          path);
  header->bytes = begin + length;
  return *std::move(header);
}

}  // namespace tg
