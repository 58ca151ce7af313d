#pragma once
// What a tokenizer's normalisation takes from a text, measured on its first documents.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace tg {

class NormalizationLoss {
 public:
  // `tokenizer` must outlive this.
  explicit NormalizationLoss(const Tokenizer& tokenizer);

  // Documents in order. The one with which 256 KiB are measured ends the measurement.
  void add(std::string_view document);
  // Ends it, if it has not ended: one warning, if anything was lost.
  void finish();

 private:
  struct Counts {
    std::int64_t line_ends = 0;
    std::int64_t extra_spaces = 0;  // at the text's begin or end, or behind other white space
    std::int64_t characters = 0;    // all others
  };
  static Counts counts_of(std::string_view text, std::map<std::string_view, std::int64_t>& others);
  void measure(std::string_view document);

  const Tokenizer& tokenizer_;
  bool measuring_;
  std::int64_t documents_ = 0, bytes_ = 0;
  Counts in_text_, lost_;
};

}  // namespace tg
