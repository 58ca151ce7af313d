// train_gpt: runs one command; an error ends the process with one line and an exit code.
#include "base/program.h"
#include "commands/commands.h"

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run_command(argc, argv); });
}
