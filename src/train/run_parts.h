#pragma once
// Components of a run. Training uses RunParts; commands that score or sample use ModelParts, and
// make_validation() for scores.

#include "base/span_log.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "data/splits.h"
#include "eval/scores/validation.h"
#include "model/gpt.h"
#include "model_io/model_files.h"
#include "optim/optimizer.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/phases.h"
#include "train/train_step.h"

namespace tg {

// Use of a model, which determines its weights: training starts from INIT_FROM or from weights
// drawn with SEED; resuming loads a checkpoint and ignores INIT_FROM; the others load trained
// weights from INIT_FROM, for inference without gradients.
enum class ModelUse { training, resuming, test_time_training, inference };

// The parameters and the model that computes with them.
struct ModelParts {
  // Requires BOS_ID from resolve_bos_id(). Throws the errors of initial_weights() or
  // trained_model().
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use);

  ParameterTable parameters;
  ModelRecord record;  // of the trained weights; in training, RunState has it
  Gpt model;

 private:
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use, ModelSpec spec);
  ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
             ModelUse use, const Plan& plan, TrainedModel trained);
};

// Reads the validation split once. Throws errors of its tokens.
Validation make_validation(const Settings& settings, const TokenSplits& splits,
                           const Machine& machine, Communicator& communicator);

// How the ranks of a run tokenize text: once per host, on one rank's fraction of its cores, since
// the other ranks compute meanwhile. `communicator` must outlive the opening of the data.
TokenizationOptions tokenization_options(const Machine& machine, Communicator& communicator);

// Constructed collectively. Throws errors of the data, the tokenizer and INIT_FROM.
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

// The model's padded sizes, with the sizes in the settings.
std::vector<SizePadded> padded_sizes(const ModelConfig& model, const Padding& padding);

// Explains why the head is not in FP8 although the setting names it, on a machine with FP8. `used`:
// Gpt::fp8_parts().
std::optional<std::string> fp8_head_notice(const Settings& settings, const Machine& machine,
                                           const Fp8Parts& used);

// Returns nothing without a tokenizer.
std::optional<TokenizerFacts> describe(const Vocabulary& vocabulary, const Validation& validation);
// Facts reported at the start.
RunStarted describe(const RunParts& parts, const Settings& settings, const Machine& machine,
                    int world_size);

}  // namespace tg
