// train_gpt: runs one command; an error ends the process with one line and an exit code.
#include "base/program.h"
#include "commands/commands.h"
#include "device/gpu.h"

int main(int argc, char** argv) {
  const int status = tg::run_program([&] { tg::run_command(argc, argv); });
#ifndef __SANITIZE_ADDRESS__  // it looks for leaks as the process exits
  // Without static destructors: LibTorch's take its tables of operators apart, a quarter of the
  // time of a short command. After work on a GPU they run, since its profilers save what they
  // measured.
  if (!tg::has_used_gpu()) tg::end_process(tg::ExitCode::ok);
#endif
  return status;
}
