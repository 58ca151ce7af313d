#include "train/metrics_sink.h"

#include <nlohmann/json.hpp>

namespace tg {

namespace {

nlohmann::json score_json(const char* event, const Score& score) {
  nlohmann::json json{{"event", event}, {"val_loss", score.loss}};
  if (score.bpb) json["val_bpb"] = *score.bpb;
  return json;
}

}  // namespace

void MetricsSink::write(const nlohmann::json& event) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  file_.write(event);
  if (also_) also_(event);
}

void MetricsSink::operator()(const RanksJoined& event) {
  write({{"event", "ranks"},
         {"world_size", event.world_size},
         {"launcher", event.launcher},
         {"endpoint", event.endpoint},
         {"collectives", event.collectives}});
}

void MetricsSink::operator()(const RunStarted& event) {
  nlohmann::json data{{"event", "data"}, {"planned_tokens", event.planned_tokens}};
  if (event.train_tokens) data["train_tokens"] = *event.train_tokens;
  write(data);
  nlohmann::json start{{"event", "start"},
                       {"dataset", event.dataset},
                       {"train_shards", event.train_shards},
                       {"val_pattern", event.val_pattern},
                       {"val_tokens", event.val_tokens},
                       {"model_params", event.parameters},
                       {"mtp_params", event.mtp_parameters},
                       {"world_size", event.world_size},
                       {"micro_steps", event.micro_steps},
                       {"micro_batches", event.micro_batches},
                       {"tokens_per_step", event.tokens_per_step},
                       {"attention_kernel", event.attention_kernel},
                       {"device", event.device},
                       {"compute_dtype", event.compute_dtype},
                       {"threads", event.threads}};
  if (event.schedule_iterations) start["schedule_iterations"] = *event.schedule_iterations;
  if (!event.fp8.empty()) start["fp8"] = event.fp8;
  if (event.peak_flops > 0) start["peak_flops"] = event.peak_flops;
  if (event.tokenizer) {
    const auto& tokenizer = *event.tokenizer;
    start["tokenizer"] = tokenizer.format;
    start["tokenizer_pieces"] = tokenizer.pieces;
    start["val_unknown_tokens"] = tokenizer.unknown_tokens;
    if (!tokenizer.normalisation.empty()) start["tokenizer_normalises"] = tokenizer.normalisation;
  }
  write(start);
}

void MetricsSink::operator()(const SizePadded& event) {
  write(
      {{"event", "padding"}, {"name", event.name}, {"size", event.size}, {"padded", event.padded}});
}

void MetricsSink::operator()(const MicroBatchCut& event) {
  nlohmann::json json{
      {"event", "micro_batch"}, {"sequences", event.sequences}, {"parts", event.parts}};
  if (event.usable > 0) {
    json["peak_bytes"] = event.peak;
    json["usable_bytes"] = event.usable;
  }
  write(json);
}

void MetricsSink::operator()(const WarmUpStepEnded& event) {
  write({{"event", "warmup_step"}, {"step", event.step}, {"steps", event.steps}});
}

void MetricsSink::operator()(const FirstStepEnded& event) {
  write({{"event", "first_step"}, {"ms_since_launch", event.ms_since_launch}});
}

void MetricsSink::operator()(const StepEnded& event) {
  nlohmann::json json{{"event", "train"},
                      {"step", event.step},
                      {"train_loss", event.loss},
                      {"lr_scale", event.lr_scale},
                      {"grad_norm", event.grad_norm},
                      {"train_time_ms", event.elapsed_ms},
                      {"tokens", event.tokens},
                      {"seq_len", event.seq_len},
                      {"flops_per_token", event.flops_per_token}};
  if (event.token_offset) json["token_offset"] = *event.token_offset;
  if (event.pass) json["pass"] = *event.pass;
  if (event.loss_scale) json["loss_scale"] = *event.loss_scale;
  write(json);
}

void MetricsSink::operator()(const StepTimed& event) {
  nlohmann::json json{
      {"event", "timing"}, {"step", event.step}, {"micro_steps", event.micro_steps}};
  for (const auto& [name, ms] : event.named_values()) json[name] = ms;
  write(json);
}

void MetricsSink::operator()(const StepSkipped& event) {
  nlohmann::json json{{"event", "skipped_step"},
                      {"step", event.step},
                      {"train_loss", event.loss},
                      {"grad_norm", event.grad_norm},
                      {event.loss_scale ? "overflows" : "skipped_steps", event.total}};
  if (event.loss_scale) json["loss_scale"] = *event.loss_scale;
  write(json);
}

void MetricsSink::operator()(const Resumed& event) {
  write({{"event", "resume"},
         {"step", event.step},
         {"checkpoint", event.checkpoint},
         {"saved_world_size", event.world_size}});
}

void MetricsSink::operator()(const CheckpointSaved& event) {
  write({{"event", "checkpoint"},
         {"step", event.step},
         {"path", event.checkpoint},
         {"bytes", event.bytes},
         {"stall_ms", event.stall_ms},
         {"write_ms", event.write_ms}});
}

void MetricsSink::operator()(const CheckpointFailed& event) {
  write(
      {{"event", "warning"}, {"kind", "checkpoint"}, {"step", event.step}, {"text", event.error}});
}

void MetricsSink::operator()(const BatchesChanged& event) {
  write({{"event", "batches"},
         {"step", event.step},
         {"tokens_per_step", event.tokens_per_step},
         {"seq_len", event.seq_len}});
}

void MetricsSink::operator()(const LateQatStarted& event) {
  write({{"event", "late_qat"}, {"step", event.step}, {"lr_scale", event.lr_scale}});
}

void MetricsSink::operator()(const SwaStarted& event) {
  write({{"event", "swa"}, {"step", event.step}});
}

void MetricsSink::operator()(const SettingWarning& event) {
  write({{"event", "warning"}, {"kind", "settings"}, {"text", event.text}});
}

void MetricsSink::operator()(const TokensStalled& event) {
  write({{"event", "warning"},
         {"kind", "stall"},
         {"first_step", event.first_step},
         {"step", event.last_step},
         {"data_wait_ms", event.waited_ms},
         {"elapsed_ms", event.elapsed_ms}});
}

void MetricsSink::operator()(const TokensRepeated& event) {
  write({{"event", "warning"}, {"kind", "repetition"}, {"step", event.step}, {"pass", event.pass}});
}

void MetricsSink::operator()(const Validated& event) {
  auto json = score_json("val", event.score);
  json["step"] = event.step;
  json["val_time_ms"] = event.val_ms;
  write(json);
}

void MetricsSink::operator()(const ValidationProgress& event) {
  write({{"event", "val_progress"},
         {"batch", event.batch},
         {"batches", event.batches},
         {"partial_mean_loss", event.mean_loss},
         {"tokens_seen", event.predictions}});
}

void MetricsSink::operator()(const ValidationSummary& event) {
  write({{"event", "val_summary"},
         {"best_val_loss", event.best_loss},
         {"best_step", event.best_step},
         {"last_val_loss", event.last_loss},
         {"last_step", event.last_step}});
}

void MetricsSink::operator()(const TraceWritten& event) {
  nlohmann::json json{{"event", "trace"}, {"path", event.path}};
  if (!event.error.empty()) json["error"] = event.error;
  write(json);
}

void MetricsSink::operator()(const StoppedEarly& event) {
  write({{"event", "stopping_early"}, {"step", event.step}, {"train_time_ms", event.elapsed_ms}});
}

void MetricsSink::operator()(const LoopEnded& event) {
  write({{"event", "closing"}, {"train_time_ms", event.train_ms}, {"val_time_ms", event.val_ms}});
}

void MetricsSink::operator()(const MemoryMeasured& event) {
  write({{"event", "memory"},
         {"peak_allocated_bytes", event.peak.allocated},
         {"peak_reserved_bytes", event.peak.reserved}});
}

void MetricsSink::operator()(const AverageApplied& event) {
  write({{"event", "average"},
         {"name", event.line.substr(0, event.line.find(':'))},
         {"text", event.line}});
}

void MetricsSink::operator()(const FinalScored& event) {
  auto json = score_json("final", event.score);
  json["name"] = event.name;
  json["eval_time_ms"] = event.eval_ms;
  if (event.stride > 0) json["stride"] = event.stride;
  write(json);
}

void MetricsSink::operator()(const ModelWritten& event) {
  const nlohmann::json files{{"final_model.pt", event.torch_bytes},
                             {"final_model.safetensors", event.safetensors_bytes}};
  nlohmann::json json{{"event", "model"}, {"file_bytes", files}, {"code_bytes", event.code_bytes}};
  if (event.excluded_parameters > 0) json["excluded_params"] = event.excluded_parameters;
  write(json);
}

void MetricsSink::operator()(const ArtifactWritten& event) {
  const auto& stats = event.stats;
  write({{"event", "artifact"},
         {"path", event.path},
         {"format", choice_name(event.format)},
         {"bytes", stats.file_bytes},
         {"code_bytes", event.code_bytes},
         {"total_bytes", event.total_bytes()},
         {"limit_bytes", ArtifactWritten::kLimitBytes},
         {"torch_bytes", stats.torch_bytes},
         {"payload_bytes", stats.payload_bytes},
         {"weight_bytes", stats.weight_bytes},
         {"quantize_ms", 1000 * stats.quantize_s},
         {"serialize_ms", 1000 * stats.serialize_s},
         {"compress_ms", 1000 * stats.compress_s},
         {"write_ms", 1000 * stats.write_s}});
}

void MetricsSink::operator()(const RunEnded& event) {
  nlohmann::json json{{"event", "exit"}, {"code", event.exit_code}};
  if (event.step) json["step"] = *event.step;
  constexpr std::size_t kMostText = 4096;  // a line's readers have limits
  if (!event.error.empty()) json["text"] = event.error.substr(0, kMostText);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  file_.write(json);
}

}  // namespace tg
