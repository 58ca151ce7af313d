#pragma once
// What a run consists of. Training takes RunParts; a command that scores or samples takes
// ModelParts, and make_validation() for scores.
#include <memory>

#include "base/span_log.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "data/splits.h"
#include "eval/validation.h"
#include "model/gpt.h"
#include "model_io/model_files.h"
#include "optim/optimizer.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/phases.h"
#include "train/train_step.h"

namespace tg {

// Purpose of a model. A training run takes INIT_FROM's weights or draws them from SEED; a resuming
// run takes its checkpoint's, whatever has become of INIT_FROM; the others use INIT_FROM's trained
// weights, for inference without gradients.
enum class ModelUse { training, resuming, test_time_training, inference };

// The weights, and the model that computes with them.
struct ModelParts {
  // Precondition: BOS_ID is resolved (resolve_bos_id). Throws what initial_weights() or
  // trained_model() throw.
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use);

  ParameterTable parameters;
  ModelRecord record;  // of the trained weights; of a run's, its own state has it
  Gpt model;

 private:
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use, ModelSpec spec);
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use, const Plan& plan, TrainedModel trained);
};

// Returns the validation of the validation split, which it reads once. Throws what its tokens
// throw.
Validation make_validation(const Settings& settings, const TokenSplits& splits,
                           const Machine& machine, Communicator& communicator);

// Returns how the ranks of a run tokenise text: once on each host, on one rank's part of its cores,
// since the others compute meanwhile. `communicator` must outlive the opening of the data.
TextMaking text_making(const Machine& machine, Communicator& communicator);

// All parts of a training run. Collective. Throws what the data, the tokenizer and INIT_FROM throw.
struct RunParts {
  // `use`: training or resuming.
  RunParts(const Settings& settings, const Machine& machine, Communicator& communicator,
           ModelUse use);

  SpanLog spans;
  TokenSplits tokens;
  Validation validation;
  ModelParts weights;
  Optimizer optimizer;
  Feeder feeder;
  PhaseRecorder phases;
  TrainStep step;
};

// The sizes of the model that are padded, and those that the settings ask for.
std::vector<SizePadded> padded_sizes(const ModelConfig& model, const Padding& padding);

// Why the head is not in FP8 though the setting names it, on a machine that has FP8. `used`:
// Gpt::fp8_parts().
std::optional<std::string> fp8_head_notice(const Settings& settings, const Machine& machine,
                                           const Fp8Parts& used);

// Nothing without a tokenizer.
std::optional<TokenizerFacts> describe(const Vocabulary& vocabulary, const Validation& validation);
// The facts that are reported at the start.
RunStarted describe(const RunParts& parts, const Settings& settings, const Machine& machine,
                    int world_size);

}  // namespace tg
