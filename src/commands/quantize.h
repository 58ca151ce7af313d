#pragma once
#include <string>

#include "config/setting.h"
#include "config/types/count_or_auto.h"
#include "config/types/limits.h"

namespace tg {

// Its own flags.
struct QuantizeOptions {
  std::string out, calibrate;
  CountOrAuto bits{.automatic = true};

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("out", s.out, anything, role::option.path(), "the artifact's file");
    line("calibrate", s.calibrate, anything, role::option.path(),
         "quantise by GPTQ, with Hessians from this data: any DATA_PATH");
    line("bits", s.bits, within(2, 8), role::option,
         "with --calibrate: MATRIX_BITS and EMBED_BITS at once, weights clipped where so many bits "
         "do best; auto: as the settings say");
  }
};

// `train_gpt quantize --init-from MODEL --out FILE [--calibrate DATA [--bits N]] [--SETTING VALUE]
// ...`: writes the artifact of a raw model and logs its sizes. Errors: those of parse_model_command
// and join_alone; usage (no --out, ARTIFACT=none, MODEL is an artifact, ARTIFACT=gptq and
// --calibrate one without the other); those of the model's file and of the data; cannot_create, io.
void quantize_command(int argc, const char* const* argv);

}  // namespace tg
