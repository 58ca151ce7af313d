#pragma once
// A training run, assembled: what it owns from its first event to its last.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoints.h"
#include "checkpoint/resume.h"
#include "config/frozen_settings.h"
#include "config/settings.h"
#include "process/machine.h"
#include "run_log/report.h"
#include "train/lr_trace.h"
#include "train/run_parts.h"
#include "train/run_state.h"
#include "train/trace.h"

namespace tg {

// What a run is given, by the command that starts it.
struct RunSetup {
  const Settings& settings;
  const Origins& origins;
  const Machine& machine;
  Communicator& communicator;
  RanksJoined ranks;
  Store store;  // null for a single rank
  std::string output_dir;
  std::optional<ResumePoint> resume;
  std::vector<TracedStep> lr_trace;  // of LR_TRACE, if any
};

struct Run {
  // Opens tokens and tokenizer, makes or loads the weights, opens the files in OUTPUT_DIR and
  // reports what the run starts with. Collective. Throws what RunParts and the outputs throw;
  // Error(config) if the data or LR_TRACE do not fit the run.
  explicit Run(RunSetup setup);

  // Where an evaluation needs the memory that the captured step keeps for its passes, frees it.
  void free_step_memory();
  // A stage of the plan as events name it.
  StageFacts stage_facts(std::int64_t stage) const;
  // Scores the validation split with the weights as they are. Collective.
  Score score();

  const Settings& settings;
  const Machine& machine;
  Communicator& communicator;
  const std::string output_dir;
  RunParts parts;
  const FrozenTexts data;  // data_identity()
  std::optional<ResumePoint> resume;
  RunState state;
  Report report;
  Checkpoints checkpoints;
  std::optional<Trace> trace;  // with PROFILE=1
};

}  // namespace tg
