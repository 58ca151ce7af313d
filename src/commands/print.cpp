#include "commands/print.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/escaped.h"

namespace tg {

void print_text(std::string_view text) {
  print_screen(::isatty(STDOUT_FILENO) == 1 ? escaped_lines(text) : std::string(text));
}

void print_screen(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  REQUIRE(written, ExitCode::io, "standard output cannot be written ({})", std::strerror(errno));
}

}  // namespace tg
