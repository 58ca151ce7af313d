#include "text/text_progress.h"

#include <fmt/format.h>

#include <filesystem>

namespace tg {
namespace {

std::int64_t total_bytes(const std::vector<std::string>& files) {
  std::int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    if (error) return 0;
    total += static_cast<std::int64_t>(bytes);
  }
  return total;
}

}  // namespace

TextProgress::TextProgress(std::string doing, const std::vector<std::string>& files)
    : doing_(std::move(doing)), total_bytes_(total_bytes(files)) {}

void TextProgress::show(std::int64_t text_bytes, std::int64_t tokens, std::int64_t bytes_read) {
  const auto now = Clock::now();
  if (now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  const double spent_s = seconds(now - began_);
  const double megabytes = static_cast<double>(text_bytes) / 1e6;
  const std::string percentage =
      total_bytes_ > 0 ? fmt::format(" ({}%)", 100 * bytes_read / total_bytes_) : "";
  progress_line(fmt::format("{} {:.1f} MB{} {:.2f} M tokens {:.1f} MB/s", doing_, megabytes,
                            percentage, static_cast<double>(tokens) / 1e6, megabytes / spent_s));
}

}  // namespace tg
