// A rank's answer to a health check, from the store of the ranks, and the report made of it.
#include "comm/health_check.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {
      Heartbeat{.round = 3, .step = 128, .waits = true, .idle_s = 0.5, .work = ""}.encode(),
      Heartbeat{.round = 4, .step = 9, .idle_s = 12, .work = "writing a file: 1 byte"}.encode()};
}

void read(std::string_view bytes) {
  HealthReport report{.round = 3, .ranks = {}};
  for (const auto part : {bytes, bytes.substr(bytes.size() / 2)})
    report.ranks.push_back({{Heartbeat::decode(std::string(part)), {}}});
  report.idle_s();
  report.text();
}

}  // namespace tg::fuzz
