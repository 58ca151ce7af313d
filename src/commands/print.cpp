#include "commands/print.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace tg {

void print_text(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  REQUIRE(written, ExitCode::io, "standard output cannot be written ({})", std::strerror(errno));
}

}  // namespace tg
