#pragma once
// Events of training steps, which count from 1.
#include <cstdint>
#include <optional>
#include <string>

#include "run_log/event_schema.h"
#include "run_log/start_events.h"

namespace tg {

// Emitted once per process, before its first StepEnded.
struct FirstStepEnded {
  static constexpr EventName kEvent{"first_step", "once a start"};

  double ms_since_launch = 0;

  void visit(auto&& v) const { v("ms_since_launch", ms_since_launch, Unit::ms, "of the process"); }
};

struct StepEnded {
  static constexpr EventName kEvent{"train", "every step"};

  std::int64_t step = 0;
  double loss = 0, lr_scale = 0;
  double grad_norm = 0;     // global norm before clipping
  double elapsed_ms = 0;    // training time
  std::int64_t tokens = 0;  // tokens that all ranks have trained on
  std::int64_t seq_len = 0;
  double flops_per_token = 0;                // training FLOP per token at seq_len
  std::optional<double> loss_scale{};        // in fp16 only
  std::optional<double> objective{};         // mean loss with MTP_WEIGHTS or PREFIX_WEIGHT
  std::optional<std::int64_t> token_offset;  // tokens of the stream, used or skipped by all ranks
  std::optional<std::int64_t> pass;          // at the end of the step

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("train_loss", loss, required(Unit::nats),
      "mean cross-entropy of the next tokens over all micro-batches and ranks");
    v("objective", objective, Unit::nats,
      "the loss with all weighted targets; absent without MTP_WEIGHTS or PREFIX_WEIGHT");
    v("train_time_ms", elapsed_ms, required(Unit::ms), "so far; validation excluded");
    v("lr_scale", lr_scale, required(), "what the schedule multiplies the learning rates by");
    v("grad_norm", grad_norm, Unit::none,
      "global, before clipping, of the gradients that the step uses (ADAM_EVERY)");
    v("tokens", tokens, Unit::tokens, "that all ranks have trained on so far");
    v("seq_len", seq_len, Unit::tokens, "of a row of the step");
    v("flops_per_token", flops_per_token, Unit::flops, "of training on rows of that length");
    v("token_offset", token_offset, Unit::tokens,
      "of the stream that all ranks have used; absent in the strided order");
    v("pass", pass, Unit::none,
      "over the training tokens, from 1; absent while their number is unknown");
    v("loss_scale", loss_scale, Unit::none, "in fp16; else absent");
  }
};

// Times that docs/timing.md explains, the reference implementation's first. Batch, forward and
// backward are means over micro-steps, the others are of the step.
struct StepTimed {
  static constexpr EventName kEvent{
      "timing",
      "every step with TRAINING_TIMING_BREAKDOWN; [timing.md](timing.md) explains the times"};

  std::int64_t step = 0, micro_steps = 1;
  double batch_cpu_ms = 0, batch_h2d_ms = 0, forward_ms = 0, backward_ms = 0, grad_clip_ms = 0,
         optimizer_ms = 0;
  double val_ms = 0;  // validation since the previous step
  double explicit_sync_ms = 0;
  // Numbers of fields in a log line: the reference implementation's, and all.
  static constexpr std::size_t kReferenceFields = 8, kLineFields = 11;
  double data_wait_ms = 0, comm_ms = 0, host_ms = 0;
  double phases_ms = 0, step_ms = 0;

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("micro_steps", micro_steps, required(), "of a rank");
    v("batch_cpu_ms", batch_cpu_ms, Unit::ms,
      "of a micro-step, on the host: until it had the tokens");
    v("batch_h2d_ms", batch_h2d_ms, Unit::ms, "of a micro-step: the copy to the GPU");
    v("forward_ms", forward_ms, Unit::ms, "of a micro-step");
    v("backward_ms", backward_ms, Unit::ms, "of a micro-step");
    v("grad_clip_ms", grad_clip_ms, Unit::ms, "reducing and clipping the gradients");
    v("optimizer_ms", optimizer_ms, Unit::ms, "");
    v("val_ms", val_ms, Unit::ms, "validation since the step before");
    v("explicit_sync_ms", explicit_sync_ms, Unit::ms, "waiting for the device before phases");
    v("data_wait_ms", data_wait_ms, Unit::ms, "until the compute stream had the batches");
    v("comm_ms", comm_ms, Unit::ms, "waiting for collectives");
    v("host_ms", host_ms, Unit::ms, "that the host took to launch the step");
    v("phases_ms", phases_ms, Unit::ms, "the phases on the compute stream together");
    v("step_ms", step_ms, Unit::ms, "from the first phase's begin to the last one's end");
  }
};

// The loss or the gradient was not finite, and the update was skipped.
struct StepSkipped {
  static constexpr EventName kEvent{"skipped_step", "ON_NONFINITE=skip, or an overflow in fp16"};

  std::int64_t step = 0;
  double loss = 0, grad_norm = 0;
  std::int64_t total = 0;              // steps skipped so far for the same reason
  std::optional<double> loss_scale{};  // if the gradient overflowed in fp16

  void visit(auto&& v) const {
    const auto total_where = [&](bool so) { return so ? std::optional(total) : std::nullopt; };
    v("step", step, required(Unit::steps), "");
    v("train_loss", loss, Unit::nats, "");
    v("grad_norm", grad_norm, Unit::none, "");
    v("skipped_steps", total_where(!loss_scale), Unit::steps, "so far; absent of an overflow");
    v("overflows", total_where(loss_scale.has_value()), Unit::steps, "so far; else absent");
    v("loss_scale", loss_scale, Unit::none, "of an overflow, halved then; else absent");
  }
};

struct CheckpointSaved {
  static constexpr EventName kEvent{"checkpoint",
                                    "a checkpoint is on the disk; training is some steps further"};

  std::int64_t step = 0;
  std::string checkpoint;
  std::uint64_t bytes = 0;
  double stall_ms = 0;  // time that training waited for it
  double write_ms = 0;  // time of writing, while training continued

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("path", checkpoint, Unit::none, "its folder");
    v("bytes", bytes, Unit::bytes, "of all ranks");
    v("stall_ms", stall_ms, Unit::ms, "that training was held up, on the host");
    v("write_ms", write_ms, Unit::ms, "beside training");
  }
};

struct BatchesChanged {
  static constexpr EventName kEvent{"batches", "before the first step of another shape"};

  std::int64_t step = 0;  // steps done before it
  std::int64_t tokens_per_step = 0, seq_len = 0;

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("tokens_per_step", tokens_per_step, required(Unit::tokens), "of all ranks");
    v("seq_len", seq_len, required(Unit::tokens), "of a row");
  }
};

struct LateQatStarted {
  static constexpr EventName kEvent{"late_qat", "once, before its first step"};

  std::int64_t step = 0;  // steps done before it
  double lr_scale = 0;

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("lr_scale", lr_scale, Unit::none, "at which it began");
  }
};

struct StageStarted {
  static constexpr EventName kEvent{"stage", "before the first step of a later stage"};

  std::int64_t step = 0;  // steps done before it
  double share = 0;
  StageFacts facts;
  std::string log_name{};  // prefix of the log line

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("share", share, Unit::none, "of the schedule that is done");
    facts.visit(v);
  }
};

struct SwaStarted {
  static constexpr EventName kEvent{"swa", "once, at the first copy"};

  std::int64_t step = 0;

  void visit(auto&& v) const { v("step", step, required(Unit::steps), ""); }
};

}  // namespace tg
