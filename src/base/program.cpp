#include "base/program.h"

#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace tg {

int exit_code_of(const std::function<void()>& program) {
  const auto told = [](ExitCode code, std::string_view what) {
    error_line(static_cast<int>(code), what);
    return static_cast<int>(code);
  };
  try {
    program();
    return static_cast<int>(ExitCode::ok);
  } catch (const Error& error) {
    return told(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    // LibTorch's messages go on with a backtrace.
    const std::string_view all(error.what());
    return told(ExitCode::internal, all.substr(0, all.find('\n')));
  }
}

}  // namespace tg
