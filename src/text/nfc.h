#pragma once
// Unicode's Normalization Form C (UAX #15), by utf8proc: characters and the marks behind them
// become one character where Unicode has it, and marks get the canonical order.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

class NfcText {
 public:
  // Normalizes `original`, which must outlive this object. Bytes that are not UTF-8 stay.
  explicit NfcText(std::string_view original);

  std::string_view text() const { return changed_.empty() ? original_ : text_; }
  // Returns the number of bytes of the original before byte `at` of text(). Inside a run that
  // normalization changed, its original bytes are spread evenly over the normalized ones.
  std::size_t original_bytes(std::size_t at) const;

 private:
  struct Changed {
    std::size_t begin, size;                    // of the run in text()
    std::size_t original_begin, original_size;  // and in the original
  };

  void add_run(std::string_view run);

  std::string_view original_;
  std::string text_;
  std::vector<Changed> changed_;  // ascending
};

}  // namespace tg
