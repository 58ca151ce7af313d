#pragma once
// A training run's components, from its first event to its last.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoints.h"
#include "checkpoint/resume.h"
#include "config/fixed_settings.h"
#include "config/settings.h"
#include "process/machine.h"
#include "run_log/report.h"
#include "train/lr_trace.h"
#include "train/run_parts.h"
#include "train/run_state.h"
#include "train/trace.h"

namespace tg {

// Arguments of a run, from the command that starts it.
struct RunSetup {
  const Settings& settings;
  const Origins& origins;
  const Machine& machine;
  Communicator& communicator;
  RanksJoined ranks;
  Store store;  // null for a single rank
  std::string output_dir;
  std::optional<ResumePoint> resume;
  std::vector<TracedStep> lr_trace;  // from LR_TRACE; empty without it
};

struct Run : RunSetup {
  // Opens tokens and tokenizer, initialises or loads the weights, opens the files in OUTPUT_DIR and
  // reports the start. Collective. Throws errors of RunParts and of the outputs; ExitCode::config
  // if the data or LR_TRACE do not fit the run.
  explicit Run(RunSetup setup);

  // Frees the captured step's memory for an evaluation, if GRAD_ACCUM_STEPS=auto has sized the step
  // to the GPU's memory.
  void free_step_memory();
  // Describes a stage of the plan for events.
  StageFacts stage_facts(std::int64_t stage) const;
  // Scores the validation split with the current weights. Collective.
  Score score();

  RunParts parts;
  const FixedTexts data;  // from data_identity()
  RunState state;
  Report report;
  Checkpoints checkpoints;
  std::optional<Trace> trace;  // with PROFILE=1
};

}  // namespace tg
