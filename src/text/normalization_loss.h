#pragma once
// Measures, on the first documents, what a tokenizer's normalization loses of a text.
#include <cstdint>
#include <map>
#include <string_view>

#include "text/tokenizer.h"

namespace tg {

class NormalizationLoss {
 public:
  // `tokenizer` must outlive this object.
  explicit NormalizationLoss(const Tokenizer& tokenizer);

  // Measures documents in order, until 256 KiB are measured.
  void add(std::string_view document);
  // Ends the measurement, if it has not ended; warns once if anything was lost.
  void finish();

 private:
  struct Counts {
    std::int64_t line_ends = 0;
    std::int64_t extra_spaces = 0;  // at either end of the text, or after other white space
    std::int64_t characters = 0;    // all other characters
  };
  static Counts counts_of(std::string_view text, std::map<std::string_view, std::int64_t>& others);
  void measure(std::string_view document);

  const Tokenizer& tokenizer_;
  bool measuring_;
  std::int64_t documents_ = 0, bytes_ = 0;
  Counts in_text_, lost_;
};

}  // namespace tg
