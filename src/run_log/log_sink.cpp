#include "run_log/log_sink.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/elapsed.h"
#include "base/log.h"
#include "config/derived.h"

namespace tg {

namespace {

// Returns " val_bpb:1.2345" or an empty text.
std::string bpb_text(std::optional<double> bpb, int digits = 4) {
  return bpb ? fmt::format(" val_bpb:{:.{}f}", *bpb, digits) : "";
}

std::string unmasked_text(std::optional<double> loss, int digits = 4) {
  return loss ? fmt::format(" val_loss_unmasked:{:.{}f}", *loss, digits) : "";
}

// Returns blocks.attn.q_gain for blocks.3.attn.q_gain.
std::string without_block(const std::string& name) {
  constexpr std::string_view blocks = "blocks.";
  const auto end = name.find('.', blocks.size());
  return name.starts_with(blocks) && end != std::string::npos
             ? std::string(blocks) + name.substr(end + 1)
             : name;
}

std::string format_text(const ArtifactWritten& event) {
  switch (event.format) {
    case Artifact::int8_zlib:
      return "int8+zlib";
    case Artifact::gptq:
      return fmt::format("quantized+{}", choice_name(event.compressor));
    case Artifact::int6:
    case Artifact::none:
      break;
  }
  return "int6+lzma";
}

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kMinute_ms = 60'000;

}  // namespace

class LogSink::Lines {
 public:
  explicit Lines(LogSink& sink) : sink_(sink), settings_(sink.settings_) {}

  void operator()(const FirstStepEnded&) {}  // StepEnded logs the line
  void operator()(const SwaStarted& event) { log_info("swa:start step:{}", event.step); }
  void operator()(const SettingWarning& event) { warn_line(event.text); }
  void operator()(const AverageApplied& event) { log_line(event.line); }
  void operator()(const RunEnded&) {}  // an error is printed on standard error

  void operator()(const RanksJoined& event) {
    log_info("ranks:{} by:{} meeting:{} collectives:{}", event.world_size, event.launcher,
             event.endpoint, event.collectives);
  }
  void operator()(const RunStarted& event) {
    sink_.peak_flops_ = event.peak_flops;
    log_start(event, settings_);
  }
  void operator()(const SizePadded& event) {
    log_info("pad_{}:{} {} padded to {}", event.name, event.size,
             event.name == "vocab" ? "rows" : "channels", event.padded);
  }
  void operator()(const MicroBatchCut& event) {
    const auto measured = event.usable == 0 ? std::string(" (not measured on a CPU)")
                                            : fmt::format(" peak:{:.0f} of {:.0f} MiB",
                                                          static_cast<double>(event.peak) / kMiB,
                                                          static_cast<double>(event.usable) / kMiB);
    log_info("micro_batch:{} sequences parts:{}{}", event.sequences, event.parts, measured);
  }

  // Logs all steps of at most 20, a later stage's first six, otherwise every tenth and the last.
  void operator()(const WarmUpStepEnded& event) {
    const auto& [step, steps, stage, log_name] = event;
    if (stage > 0) {
      if (step <= 6 || step % 10 == 0 || step == steps)
        log_info("{}_step: {}/{}", log_name, step, steps);
    } else if (steps <= 20 || step % 10 == 0 || step == steps) {
      log_info("warmup_step:{}/{}", step, steps);
    }
  }

  void operator()(const StageWarmUpBegan& event) {
    log_info("{}:enabled encoder:{} decoder:{}", event.log_name, event.facts.encoder,
             event.facts.decoder);
  }

  // Logs steps up to 10 and every TRAIN_LOG_EVERY; updates the progress line at every step. After
  // the tenth step of this process, logs the estimated time left if it exceeds a minute.
  void operator()(const StepEnded& event) {
    const auto every = settings_.run.train_log_every;
    const auto step = event.step;
    if (every > 0 && (step <= 10 || step % every == 0)) {
      log_info("step:{}/{} train_loss:{:.4f} train_time:{:.0f}ms step_avg:{:.2f}ms", step,
               settings_.run.iterations, event.loss, event.elapsed_ms,
               event.elapsed_ms / static_cast<double>(step));
    }
    sink_.time_left_line(event);
    progress_line(sink_.progress_text(event));
  }

  // Logs steps up to 10 and every TRAINING_TIMING_EVERY.
  void operator()(const StepTimed& event) {
    if (event.step > 10 && event.step % settings_.io.training_timing_every != 0) return;
    const bool events = settings_.io.training_timing_breakdown == TimingBreakdown::events;
    std::size_t left = events ? StepTimed::kLineFields : StepTimed::kReferenceFields;
    std::string line =
        fmt::format("timing_breakdown step:{} micro_steps:{}", event.step, event.micro_steps);
    event.visit([&](const char* name, const auto& value, FieldRule rule, const char*) {
      if (rule.unit != Unit::ms || left == 0) return;
      line += fmt::format(" {}:{:.2f}", name, static_cast<double>(value));
      --left;
    });
    log_info(
        "{} (per_optimizer_step; forward/backward/batch averaged over micro_steps; "
        "grad_accum_steps={})",
        line, event.micro_steps);
  }

  void operator()(const StepSkipped& event) {
    if (event.loss_scale) {
      log_info("loss_scale:{} overflow at step:{}, update skipped ({} so far)",
               *event.loss_scale / 2, event.step, event.total);
      return;
    }
    log_warn("step {}: loss {} and gradient norm {} are not finite, update skipped ({} so far)",
             event.step, event.loss, event.grad_norm, event.total);
  }

  void operator()(const Resumed& event) {
    log_info("resume:step:{} from {} (saved by {} rank{})", event.step, event.checkpoint,
             event.world_size, event.world_size == 1 ? "" : "s");
  }
  void operator()(const CheckpointSaved& event) {
    log_info("checkpoint:{} bytes:{} stall_ms:{:.2f} write_ms:{:.0f}", event.checkpoint,
             event.bytes, event.stall_ms, event.write_ms);
  }
  void operator()(const CheckpointFailed& event) {
    log_warn("step {}: no checkpoint ({}); training goes on", event.step, event.error);
  }
  void operator()(const BatchesChanged& event) {
    log_info("batches:changed step:{} tokens_per_step:{} train_seq_len:{}", event.step,
             event.tokens_per_step, event.seq_len);
  }
  void operator()(const LateQatStarted& event) {
    log_info("late_qat:enabled step:{} scale:{:.4f}", event.step, event.lr_scale);
  }

  void operator()(const StageStarted& event) {
    if (event.log_name.empty()) {
      log_info("stage:{} step:{} frac:{:.3f}", event.facts.title, event.step, event.share);
      return;
    }
    log_info("{}:enabled step:{} frac:{:.3f} encoder:{} decoder:{}", event.log_name, event.step,
             event.share, event.facts.encoder, event.facts.decoder);
  }

  void operator()(const TokensStalled& event) {
    log_warn(
        "steps {} to {}: training waited for tokens, data_wait_ms:{:.0f} of {:.0f} ({:.1f}%); the "
        "storage of DATA_PATH is slower than training; TRAIN_PREFETCH=1, a larger "
        "TRAIN_PREFETCH_QUEUE or more TRAIN_PREFETCH_WORKERS hide temporary stalls",
        event.first_step, event.last_step, event.waited_ms, event.elapsed_ms,
        100 * event.waited_ms / event.elapsed_ms);
  }

  void operator()(const TokensRepeated& event) {
    log_warn(
        "step {} begins pass {} over the training tokens: val_loss may rise; give more text, or "
        "train for fewer steps",
        event.step, event.pass);
  }

  void operator()(const Validated& event) {
    const auto steps = settings_.run.iterations;
    log_info("step:{}/{} val_loss:{:.4f}{}{} train_time:{:.0f}ms step_avg:{:.2f}ms", event.step,
             steps, event.loss, unmasked_text(event.unmasked_loss), bpb_text(event.bpb),
             event.elapsed_ms,
             event.elapsed_ms / static_cast<double>(std::max<std::int64_t>(event.step, 1)));
    log_info("val_stage_time_ms:{:.0f}ms step:{}/{}", event.val_ms, event.step, steps);
  }

  void operator()(const ValidationProgressed& event) {
    const auto ranks =
        sink_.world_size_ == 1 ? std::string("all") : fmt::format("rank0/{}", sink_.world_size_);
    log_info("val_progress:{} batch {}/{} partial_mean_loss:{:.4f} tokens_seen:{:.0f}", ranks,
             event.batch, event.batches, event.mean_loss, event.predictions);
  }
  void operator()(const ValidationSummary& event) {
    log_info("best_val_loss:{:.4f} step:{} last_val_loss:{:.4f} step:{}", event.best_loss,
             event.best_step, event.last_loss, event.last_step);
  }

  void operator()(const TraceWritten& event) {
    if (event.error.empty()) {
      log_info("trace:{}", event.path);
    } else {
      log_warn("no trace: {}", event.error);
    }
  }

  void operator()(const StoppedEarly& event) {
    log_info("stopping_early: wallclock_cap train_time:{:.0f}ms step:{}/{}", event.elapsed_ms,
             event.step, settings_.run.iterations);
  }
  void operator()(const LoopEnded& event) {
    log_info("timing_train_loop_ms:{:.0f}ms timing_val_total_ms:{:.0f}ms", event.train_ms,
             event.val_ms);
  }
  void operator()(const MemoryMeasured& event) {
    log_info("peak memory allocated: {:.0f} MiB reserved: {:.0f} MiB",
             static_cast<double>(event.peak_allocated) / kMiB,
             static_cast<double>(event.peak_reserved) / kMiB);
  }

  void operator()(const FinalScored& event) {
    const auto stride = event.stride > 0 ? fmt::format(" stride:{}", event.stride) : "";
    log_info("{} val_loss:{:.{}f}{}{}{} eval_time:{:.0f}ms", event.line_name, event.loss,
             event.digits, unmasked_text(event.unmasked_loss, event.digits),
             bpb_text(event.bpb, event.digits), stride, event.eval_ms);
    if (!event.exact_line) return;
    log_info("{} val_loss:{:.8f}{}", event.name, event.loss, bpb_text(event.bpb, 8));
  }

  void operator()(const HessiansCollected& event) {
    log_info("GPTQ:collected {} Hessians in {:.1f}s", event.count, event.ms / 1000);
  }

  void operator()(const WeightsQuantized& event) {
    log_info("Quantized weights:");
    for (const auto& [kind, names] : event.names) {
      std::set<std::string> merged_names;
      for (const auto& name : names) merged_names.insert(without_block(name));
      log_info("  {}: {}", kind, fmt::join(merged_names, ", "));
    }
  }

  // Also warns if artifact and code exceed the limit.
  void operator()(const ArtifactWritten& event) {
    const auto format = format_text(event);
    const auto payload = event.format != Artifact::int8_zlib
                             ? ""
                             : fmt::format(" (payload:{} raw_torch:{} payload_ratio:{:.2f}x)",
                                           event.payload_bytes, event.torch_bytes,
                                           static_cast<double>(event.weight_bytes) /
                                               static_cast<double>(event.payload_bytes));
    log_info("Serialized model {}: {} bytes{}", format, event.bytes, payload);
    log_info("Total submission size {}: {} bytes", format, event.total_bytes());
    log_info(
        "artifact_time quantize:{:.0f}ms serialize:{:.0f}ms compress:{:.0f}ms write:{:.0f}ms "
        "limit:{} bytes",
        event.quantize_ms, event.serialize_ms, event.compress_ms, event.write_ms,
        ArtifactWritten::kLimitBytes);
    if (event.total_bytes() <= ArtifactWritten::kLimitBytes) return;
    log_warn(
        "{}: with the code {} bytes, {} more than the limit of {}; train a smaller model "
        "(NUM_LAYERS, MODEL_DIM, VOCAB_SIZE, BIGRAM_VOCAB_SIZE)",
        event.path, event.total_bytes(), event.total_bytes() - ArtifactWritten::kLimitBytes,
        ArtifactWritten::kLimitBytes);
  }

  void operator()(const ModelWritten& event) {
    if (event.excluded_parameters > 0) {
      log_info("export_excluding_mtp_params:{}", event.excluded_parameters);
    }
    log_info("Serialized model: {} bytes", event.torch_bytes);
    log_info("Code size: {} bytes", event.code_bytes);
  }

 private:
  LogSink& sink_;
  const Settings& settings_;
};

void LogSink::operator()(const RunEvent& event) {
  std::visit(Lines(*this), event);
}

void LogSink::time_left_line(const StepEnded& event) {
  constexpr std::int64_t kMeasured = 9;
  if (!first_step_) first_step_ = {event.step, event.elapsed_ms};
  const auto [first, first_ms] = *first_step_;
  if (event.step != first + kMeasured) return;
  const double step_ms = (event.elapsed_ms - first_ms) / kMeasured;
  const double left = left_ms(event, step_ms);
  if (left < kMinute_ms) return;
  log_info("training_left:{} at {:.0f} ms a step, for at most {} steps (ITERATIONS={})",
           clock_text(left / 1000), step_ms, settings_.run.iterations - event.step,
           settings_.run.iterations);
}

// Returns the training time left until the last step, or until the wall-clock limit if that is
// less.
double LogSink::left_ms(const StepEnded& event, double step_ms) const {
  const auto& run = settings_.run;
  double left = static_cast<double>(run.iterations - event.step) * step_ms;
  if (const double cap = training_seconds(run); cap > 0)
    left = std::min(left, cap * 1000 - event.elapsed_ms);
  return std::max(left, 0.0);
}

std::string LogSink::progress_text(const StepEnded& event) const {
  const auto& run = settings_.run;
  const auto step = event.step;
  const double step_ms = event.elapsed_ms / static_cast<double>(step);
  const double rate = static_cast<double>(event.tokens) / event.elapsed_ms * 1000;
  std::string line =
      fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  ETA {}", step, run.iterations,
                  event.loss, rate, clock_text(left_ms(event, step_ms) / 1000));
  if (event.pass) line += fmt::format("  pass {}", *event.pass);
  if (peak_flops_ > 0) {
    const double flops = rate * event.flops_per_token;
    line += fmt::format("  MFU {:.1f}%", 100 * flops / (world_size_ * peak_flops_));
  }
  return line;
}

}  // namespace tg
