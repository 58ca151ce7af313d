#pragma once
// Every setting of the program. A setting is declared twice, side by side: as a member with its
// default, and as a line in `visit` with name, range, role and help. Parsing, help, checks,
// config.json and resuming read these lines (for_each_setting). A role depends on values of the
// group, `s`, and of all settings, `all`, of a deduced type, since groups are declared before
// Settings. The text forms of `matrix_lr` are MATRIX_LR (environment, --config files) and
// --matrix-lr (flags).
#include <map>
#include <string>
#include <type_traits>

#include "config/data_config.h"
#include "config/gptq_config.h"
#include "config/model_config.h"
#include "config/optim_config.h"
#include "config/run_config.h"
#include "config/runtime_config.h"
#include "config/setting.h"
#include "config/ttt_config.h"

namespace tg {

struct Settings {
  DataConfig data;
  RunConfig run;
  ModelConfig model;
  OptimConfig optim;
  AveragingConfig averaging;
  GptqConfig gptq;
  TttConfig ttt;
  PhasedTttConfig phased_ttt;
  IoConfig io;
  RuntimeConfig runtime;

  static void visit(auto& s, const auto& line) {
    visit_groups(s, [&](const char*, const char*, auto& group) {
      std::remove_cvref_t<decltype(group)>::visit(group, line, s);
    });
  }
  // f(page, title, group), in the order of the help text; `page` is the word after --help.
  static void visit_groups(auto& s, auto&& f) {
    f("data", "Data", s.data);
    f("run", "Run", s.run);
    f("model", "Model", s.model);
    f("optimizer", "Optimizer", s.optim);
    f("averaging", "Averaging and quantisation", s.averaging);
    f("last_record", "Quantisation by GPTQ", s.gptq);
    f("ttt", "Test-time training", s.ttt);
    f("last_record", "Phased test-time training", s.phased_ttt);
    f("overlap", "Overlap and timing", s.io);
    f("machine", "Machine and outputs", s.runtime);
  }
};

// Source of each setting's value, by member name: "flag", "environment", a file's path, or a word
// of namespace origin.
using Origins = std::map<std::string, std::string>;
namespace origin {
inline constexpr const char *program = "default", *recipe = "recipe",
                            *run = "run";  // the run that made the model
}
// Returns whether a flag, the environment or a --config file gave a setting.
inline bool is_given(const Origins& origins, const std::string& member) {
  const auto& found = origins.at(member);
  return found != origin::program && found != origin::recipe && found != origin::run;
}

}  // namespace tg
