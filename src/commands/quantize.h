#pragma once
#include <string>

#include "config/setting.h"

namespace tg {

// Its own flags.
struct QuantizeOptions {
  std::string out;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("out", s.out, anything, role::option.path(), "the artifact's file");
  }
};

// `train_gpt quantize --init-from MODEL --out FILE [--SETTING VALUE]...`: writes the artifact of a
// raw model and logs its sizes. Errors: those of parse_model_command and join_alone; usage (no
// --out, ARTIFACT=none, FILE is an artifact); those of the model's file; cannot_create, io.
void quantize_command(int argc, const char* const* argv);

}  // namespace tg
