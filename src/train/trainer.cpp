#include "train/trainer.h"

#include <utility>

#include "config/derived.h"
#include "train/final_outputs.h"
#include "train/micro_batch.h"
#include "train/train_loop.h"
#include "train/warm_up.h"

namespace tg {

namespace {

// Up to the state that the first step starts from.
void prepare(Run& run) {
  if (measures_memory(run.settings)) choose_parts(run);
  warm_up(run);
  if (run.resume) {
    const PeerWatch::Work loading(run.communicator.watch(), "loading " + run.resume->checkpoint);
    load_checkpoint(*run.resume, run.state, run.communicator.rank(), run.communicator.world_size());
  } else {
    run.state.start_average();
  }
}

}  // namespace

void train(RunSetup setup) {
  Run run(std::move(setup));
  prepare(run);
  TrainLoop(run).run();
  FinalOutputs(run).write();
  run.report.emit(RunEnded{.exit_code = 0, .step = run.state.step, .error = ""});
}

}  // namespace tg
