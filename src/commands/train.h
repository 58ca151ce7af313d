#pragma once

namespace tg {

// `train_gpt [train] [--config FILE]... [--SETTING VALUE]...`; --help and --version print and
// return. Each rank of a run calls it. Errors: those of the settings, of the rendezvous and of
// train().
void train_command(int argc, const char* const* argv);

}  // namespace tg
