#pragma once
#include <string>

#include "config/setting.h"

namespace tg {

// Its own flags.
struct ReportOptions {
  std::string out, serve;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("out", s.out, anything, role::option.path(), "the HTML file");
    line("serve", s.serve, anything, role::option,
         "the port of 127.0.0.1 to serve the page at; none or 0: a free one");
  }
};

// `train_gpt report RUN... --out FILE`: writes one HTML file about the runs, and a line on standard
// output. A RUN is a run's folder, or a metrics.jsonl in it (metrics.1.jsonl of an earlier run).
// Errors: usage; missing_input; bad_data (naming file and line); cannot_create, io.
// `train_gpt report [RUN...] --serve [PORT]`: serves the same page on the loopback until SIGINT or
// SIGTERM; it follows the runs, also those that begin later in a folder of runs. Errors: usage;
// missing_input; unavailable (the port is in use).
void report_command(int argc, const char* const* argv);

}  // namespace tg
