#pragma once
// Events at the start of a run.
#include <cstdint>
#include <optional>
#include <string>

#include "run_log/event_schema.h"

namespace tg {

struct RanksJoined {
  static constexpr EventName kEvent{"ranks", "start, several ranks"};

  int world_size = 1;
  std::string launcher, endpoint, collectives;

  void visit(auto&& v) const {
    v("world_size", world_size, Unit::none, "ranks");
    v("launcher", launcher, Unit::none, "what started them");
    v("endpoint", endpoint, Unit::none, "of the rendezvous");
    v("collectives", collectives, Unit::none, "what reduces their gradients");
  }
};

// Facts about the tokenizer of TOKENIZER_PATH and about val_bpb.
struct TokenizerFacts {
  std::string format;         // "sentencepiece" or "gpt2"
  int pieces = 0;             // at most VOCAB_SIZE
  std::string normalisation;  // what normalisation changes in text; empty: nothing
  std::int64_t unknown_tokens =
      0;                       // unknown pieces to predict in the validation split, 0 bytes each
  bool has_val_bpb = true;     // false if unknown tokens may hide spaces
  std::string byte_sidecar{};  // files with byte counts; empty: the tokenizer counts
};

struct DataPlanned {
  static constexpr EventName kEvent{"data", "start"};

  double planned_tokens = 0;
  std::optional<std::int64_t> train_tokens;  // tokens of one pass; unknown while text is tokenised

  void visit(auto&& v) const {
    v("planned_tokens", planned_tokens, Unit::tokens, "that ITERATIONS steps read");
    v("train_tokens", train_tokens, Unit::tokens,
      "in one pass; absent while text is being tokenised");
  }
};

// Facts resolved from settings, data and machine. In metrics.jsonl the event data() precedes it.
struct RunStarted {
  static constexpr EventName kEvent{"start",
                                    "start: what was resolved; the settings are in config.json"};

  std::string dataset;  // the last component of DATA_PATH
  int train_shards = 0;
  std::optional<std::int64_t> train_tokens;  // tokens of one pass; unknown while text is tokenised
  double planned_tokens = 0;                 // tokens that ITERATIONS steps read
  std::string val_pattern;
  std::int64_t val_tokens = 0;
  std::optional<TokenizerFacts> tokenizer;
  std::int64_t parameters = 0, mtp_parameters = 0;
  int world_size = 1;
  std::int64_t micro_steps = 1;  // per rank
  std::int64_t micro_batches = 1, tokens_per_step = 0;
  std::optional<std::int64_t> schedule_iterations{};  // absent if the schedule follows the clock
  std::string attention_kernel, kernels, device, compute_dtype;
  bool on_gpu = false;
  std::string fp8;  // GEMMs in FP8, as the setting names them; empty: none
  std::string threads;
  double peak_flops = 0;  // FLOP/s of one rank's GPU; 0: unknown

  DataPlanned data() const { return {planned_tokens, train_tokens}; }

  void visit(auto&& v) const {
    const auto fact = [&](auto TokenizerFacts::*member) {
      return tokenizer ? std::optional((*tokenizer).*member) : std::nullopt;
    };
    v("dataset", dataset, Unit::none, "the last component of DATA_PATH");
    v("train_shards", train_shards, Unit::none, "files of the training split");
    v("val_pattern", val_pattern, Unit::none, "files of the validation split");
    v("val_tokens", val_tokens, Unit::tokens, "that a validation predicts");
    v("model_params", parameters, Unit::parameters, "of the model");
    v("mtp_params", mtp_parameters, Unit::parameters, "of them in multi-token heads");
    v("tokens_per_step", tokens_per_step, required(Unit::tokens), "of all ranks");
    v("world_size", world_size, required(), "ranks");
    v("micro_steps", micro_steps, Unit::none, "of a rank in a step");
    v("micro_batches", micro_batches, Unit::none, "of all ranks in a step");
    v("schedule_iterations", schedule_iterations, Unit::steps,
      "of the schedule; absent where it follows the clock");
    v("attention_kernel", attention_kernel, Unit::none, "what computes attention");
    v("kernels", kernels, Unit::none,
      "what computes the other operations: aten is LibTorch, the others are own kernels");
    v("device", device, Unit::none, "name of a rank's GPU, or the CPU");
    v("compute_dtype", compute_dtype, Unit::none, "of activations and GEMMs");
    v("fp8", if_any(fp8), Unit::none, "GEMMs in FP8; absent if none");
    v("threads", threads, Unit::none, "how many compute on the CPU");
    v("peak_flops", if_any(peak_flops), Unit::flop_s,
      "dense, of one rank's GPU; absent where unknown");
    v("tokenizer", fact(&TokenizerFacts::format), Unit::none,
      "sentencepiece, bpe or gpt2; absent without TOKENIZER_PATH");
    v("tokenizer_pieces", fact(&TokenizerFacts::pieces), Unit::none,
      "that have an id; absent without TOKENIZER_PATH");
    v("val_unknown_tokens", fact(&TokenizerFacts::unknown_tokens), Unit::tokens,
      "unknown pieces to predict in the validation split, of 0 bytes each; absent without "
      "TOKENIZER_PATH");
    v("tokenizer_normalises", tokenizer ? if_any(tokenizer->normalisation) : std::nullopt,
      Unit::none, "what of the text it changes; absent where nothing");
    v("byte_sidecar", tokenizer ? if_any(tokenizer->byte_sidecar) : std::nullopt, Unit::none,
      "files of the byte sidecar that val_bpb counts by; absent where the tokenizer counts");
  }
};

struct SizePadded {
  static constexpr EventName kEvent{"padding", "start, each size that is padded on a GPU"};

  std::string name;
  std::int64_t size = 0, padded = 0;

  void visit(auto&& v) const {
    v("name", name, Unit::none, "vocab, model_dim, head_dim or mlp");
    v("size", size, Unit::none, "by the settings");
    v("padded", padded, Unit::none, "what is computed with");
  }
};

// GRAD_ACCUM_STEPS=auto: micro-batches of `sequences` are split into `parts`.
struct MicroBatchCut {
  static constexpr EventName kEvent{"micro_batch", "start, GRAD_ACCUM_STEPS=auto"};

  std::int64_t sequences = 0, parts = 1;
  std::int64_t peak = 0, usable = 0;  // bytes; 0 on a CPU, where nothing is measured

  void visit(auto&& v) const {
    const auto measured = [&](std::int64_t size) {
      return usable > 0 ? std::optional(size) : std::nullopt;
    };
    v("sequences", sequences, Unit::none, "of a micro-batch");
    v("parts", parts, Unit::none, "that it is cut into");
    v("peak_bytes", measured(peak), Unit::bytes,
      "reserved at most during a part's passes; absent on a CPU");
    v("usable_bytes", measured(usable), Unit::bytes, "of the GPU; absent on a CPU");
  }
};

struct WarmUpStepEnded {
  static constexpr EventName kEvent{"warmup_step", "every warm-up step"};

  std::int64_t step = 0, steps = 0;
  std::int64_t stage = 0;
  std::string log_name{};  // name of the stage's warm-up in the log

  void visit(auto&& v) const {
    v("step", step, Unit::steps, "from 1");
    v("steps", steps, Unit::steps, "in all");
    v("stage", if_any(stage), Unit::none, "of the run; absent in the first, 0");
  }
};

// A stage of the run after the first one.
struct StageFacts {
  std::int64_t stage = 0;
  std::string title;             // "in recurrence"
  std::string encoder, decoder;  // blocks of a pass in order: "[0, 1, 2]"

  void visit(auto&& v) const {
    v("stage", stage, required(Unit::none), "its number, from 1");
    v("title", title, Unit::none, "what is new in it");
    v("encoder", encoder, Unit::none, "the blocks of the first half of a pass, in their order");
    v("decoder", decoder, Unit::none, "the blocks of the second half");
  }
};

struct StageWarmUpBegan {
  static constexpr EventName kEvent{"stage_warmup", "before the warm-up steps of a later stage"};

  StageFacts facts;
  std::string log_name{};  // prefix of the log line

  void visit(auto&& v) const { facts.visit(v); }
};

// The run resumes from a checkpoint; its next step is `step` + 1.
struct Resumed {
  static constexpr EventName kEvent{
      "resume", "the run goes on from a checkpoint; the events behind that step are gone"};

  std::int64_t step = 0;
  std::string checkpoint;
  int world_size = 1;  // ranks of the run that saved it

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "of the checkpoint");
    v("checkpoint", checkpoint, Unit::none, "its folder");
    v("saved_world_size", world_size, Unit::none, "ranks of the run that saved it");
  }
};

}  // namespace tg
