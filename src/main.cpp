// train_gpt: runs one command; an error exits with one line and an exit code.
#include "base/program.h"
#include "commands/commands.h"
#include "device/gpu.h"

int main(int argc, char** argv) {
  const int status = tg::run_program([&] { tg::run_command(argc, argv); });
#ifndef __SANITIZE_ADDRESS__  // it detects leaks at exit
  // Skips static destructors: LibTorch's destroy its operator tables, a quarter of the time of a
  // short command. After work on a GPU they must run, since GPU profilers save their results there.
  if (!tg::has_used_gpu()) tg::end_process(tg::ExitCode::ok);
#endif
  return status;
}
