#include "comm/wait_notice.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/program.h"

namespace tg {

WaitNotice::WaitNotice(NoticeTimes times, std::function<std::string()> text)
    : thread_([times, text = std::move(text)](const std::stop_token& ended) {
        std::mutex mutex;
        std::condition_variable_any never;
        const auto passes = [&](std::chrono::milliseconds time) {
          std::unique_lock lock(mutex);
          never.wait_for(lock, ended, time, [] { return false; });
          return !ended.stop_requested();
        };
        for (auto time = times.first; passes(time); time = times.again) {
          const auto line = text();
          // An error must stay the last line, even if the process lingers for its launcher.
          if (!line.empty() && !ended.stop_requested() && !is_ending()) warn_line(line);
        }
      }) {}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr int kMaxParts = 10;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  int parts = 0;
  for (std::size_t first = 0, next = 0; first < ranks.size(); first = next) {
    if (++parts > kMaxParts) return text + ", ...";
    do ++next;
    while (next < ranks.size() && ranks[next] == ranks[next - 1] + 1);
    text += fmt::format("{} {}", first == 0 ? "" : ",", ranks[first]);
    if (next - first > 1) text += fmt::format("-{}", ranks[next - 1]);
  }
  return text;
}

}  // namespace tg
