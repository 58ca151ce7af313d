#pragma once

namespace tg {

// Runs `train_gpt [COMMAND] [ARGUMENT]...`; without a command it trains. A command receives its
// arguments as a program would: argv[0] is its name. Errors: usage for an unknown command, naming
// the nearest; those of the command.
void run_command(int argc, const char* const* argv);

}  // namespace tg
