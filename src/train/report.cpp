#include "train/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/python_format.h"
#include "base/uptime.h"
#include "config/derived.h"
#include "config/resolved.h"
#include "device/gpu.h"

namespace tg {

namespace {

std::string fresh(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // a run's that failed before its first step
  return path;
}

// " val_bpb:1.2345" or nothing.
std::string bpb_text(const Score& score) {
  return score.bpb ? fmt::format(" val_bpb:{:.4f}", *score.bpb) : "";
}

nlohmann::json score_json(const char* event, const Score& score) {
  nlohmann::json json{{"event", event}, {"val_loss", score.loss}};
  if (score.bpb) json["val_bpb"] = *score.bpb;
  return json;
}

std::string header_text(const Settings& settings, const Machine& machine) {
  return settings_text(settings) + version_text() + "device " + machine.device_name;
}

constexpr double kMiB = 1024.0 * 1024.0;

MemoryPeak peak_memory(at::Device device) {
  if (device.is_cuda()) return gpu_memory_peak();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_maxrss * 1024, usage.ru_maxrss * 1024};
}

}  // namespace

Report::Report(const std::string& dir, const Settings& settings, const Origins& origins,
               const Machine& machine, const Communicator& communicator)
    : settings_(settings), machine_(machine), world_size_(communicator.world_size()) {
  if (communicator.rank() != 0) return;
  files_.emplace(dir);
  metrics_.emplace(fresh(files_->path("metrics.jsonl")));
  open_log_file(files_->path("log.txt"), header_text(settings, machine));
  auto config = settings_json(settings, origins);
  config["versions"] = version_text();
  config["device"] = machine.device_name;
  write_json_file(files_->path("config.json"), config);
}

void Report::write(const nlohmann::json& event) {
  if (metrics_) metrics_->write(event);
}

void Report::take_names() {
  if (!files_) return;
  files_->take_names();
  metrics_->renamed(files_->path("metrics.jsonl"));
}

void Report::opening(const RunFacts& facts) {
  micro_steps_ = facts.micro_steps;
  const auto& run = settings_.run;
  const auto& model = settings_.model;
  const auto& optim = settings_.optim;
  if (facts.counts_bytes) {
    log_info("val_bpb:enabled tokenizer_kind=sentencepiece tokenizer_path={}",
             settings_.data.tokenizer_path);
  }
  const auto dataset =
      std::filesystem::weakly_canonical(settings_.data.data_path).filename().string();
  log_info("train_loader:dataset:{} train_shards:{}", dataset, facts.train_shards);
  log_info("val_loader:shards pattern={} tokens:{}", facts.val_pattern, facts.val_tokens);
  nlohmann::json data{{"event", "data"}, {"planned_tokens", facts.planned_tokens}};
  if (facts.train_tokens) {
    data["train_tokens"] = *facts.train_tokens;
    log_info(
        "train_tokens:{} passes_planned:{:.2f}{}", *facts.train_tokens,
        facts.planned_tokens / static_cast<double>(*facts.train_tokens),
        run.max_wallclock_seconds > 0 ? " (MAX_WALLCLOCK_SECONDS may end the run sooner)" : "");
  } else {
    log_info("train_tokens:unknown (they are counted while training runs)");
  }
  write(data);
  log_info("model_params:{}", facts.parameters);
  log_info("mtp_num_heads:{} mtp_loss_weight:{} mtp_params:{}", model.mtp_num_heads,
           py_repr(model.mtp_loss_weight), facts.mtp_parameters);
  std::vector<std::int64_t> exclusive;
  for (auto i = model.num_layers - model.xsa_last_n; i < model.num_layers; ++i)
    exclusive.push_back(i);
  log_info("XSA:last_{} active_layers:{}", model.xsa_last_n, py_repr(exclusive));
  log_info("world_size:{} grad_accum_steps:{}", world_size_, facts.micro_steps);
  log_info("micro_batches:{} tokens_per_step:{}", micro_batches(settings_, world_size_),
           tokens_per_step(settings_, world_size_));
  log_info("attention_mode:gqa num_heads:{} num_kv_heads:{}", model.num_heads, model.num_kv_heads);
  log_info("attention_kernel:{} device:{} compute_dtype:{}", attention_name(machine_.attention),
           machine_.device_name, c10::toString(machine_.compute));
  log_info("threads:{}", machine_.threads);
  const double head_lr = model.tie_embeddings ? 0.0 : optim.head_lr;
  log_info("tie_embeddings:{} embed_lr:{} head_lr:{} matrix_lr:{} scalar_lr:{}",
           py_repr(model.tie_embeddings),
           py_repr(model.tie_embeddings ? optim.tied_embed_lr : optim.embed_lr), py_repr(head_lr),
           py_repr(optim.matrix_lr), py_repr(optim.scalar_lr));
  log_info(
      "train_batch_tokens:{} train_seq_len:{} iterations:{} warmup_steps:{} "
      "max_wallclock_seconds:{:.3f}",
      run.train_batch_tokens, run.train_seq_len, run.iterations, run.warmup_steps,
      run.max_wallclock_seconds);
  log_info("seed:{}", settings_.data.seed);
  const auto io = effective_io(settings_);
  const bool gpu = machine_.device.is_cuda();
  if (io.training_timing_breakdown != TimingBreakdown::off) {
    log_info("training_timing_breakdown:enabled log_every:{}", io.training_timing_every);
  }
  log_info("train_io:prefetch:{} copy_stream:{}", py_repr(io.train_prefetch),
           py_repr(gpu && io.train_copy_stream));
  log_info("val_io:overlap:{} prefetch:{} copy_stream:{} prefetch_queue:{} bytecount_device:{}",
           py_repr(io.val_prefetch || (gpu && io.val_copy_stream)), py_repr(io.val_prefetch),
           py_repr(gpu && io.val_copy_stream), io.val_prefetch_queue,
           choice_name(io.val_bytecount_device));
}

void Report::warm_up(std::int64_t step) const {
  const auto steps = settings_.run.warmup_steps;
  if (steps <= 20 || step % 10 == 0 || step == steps) log_info("warmup_step:{}/{}", step, steps);
}

void Report::train(const StepResult& result) {
  if (!first_step_told_) {
    take_names();
    write({{"event", "first_step"}, {"ms_since_launch", process_uptime_ms()}});
    first_step_told_ = true;
  }
  nlohmann::json json{{"event", "train"},
                      {"step", result.step},
                      {"train_loss", result.loss},
                      {"lr_scale", result.lr_scale},
                      {"train_time_ms", result.elapsed_ms}};
  if (result.token_offset) json["token_offset"] = *result.token_offset;
  if (result.pass) json["pass"] = *result.pass;
  write(json);
  warn_of_repetition(result);
  const auto every = settings_.run.train_log_every;
  const auto step = result.step;
  if (every > 0 && (step <= 10 || step % every == 0)) {
    log_info("step:{}/{} train_loss:{:.4f} train_time:{:.0f}ms step_avg:{:.2f}ms", step,
             settings_.run.iterations, result.loss, result.elapsed_ms,
             result.elapsed_ms / static_cast<double>(step));
  }
  progress(result);
}

// Four passes over the same text are worth nearly as much as new text; later ones less and less
// (Muennighoff et al. 2023, arXiv 2305.16264).
void Report::warn_of_repetition(const StepResult& result) {
  constexpr std::int64_t kPassesWorthwhile = 4;
  if (repetition_told_ || result.pass.value_or(1) <= kPassesWorthwhile) return;
  repetition_told_ = true;
  log_warn(
      "step {} begins pass {} over the training tokens: val_loss may rise; give more text, or "
      "train for fewer steps",
      result.step, *result.pass);
}

void Report::timing(std::int64_t step, const StepTimes& times, double val_ms) {
  const double n = static_cast<double>(micro_steps_);
  const bool events = settings_.io.training_timing_breakdown == TimingBreakdown::events;
  nlohmann::json json{{"event", "timing"},
                      {"step", step},
                      {"micro_steps", micro_steps_},
                      {"batch_cpu_ms", times.batch_cpu / n},
                      {"batch_h2d_ms", times.batch_h2d / n},
                      {"forward_ms", times.forward / n},
                      {"backward_ms", times.backward / n},
                      {"grad_clip_ms", times.grad_clip},
                      {"optimizer_ms", times.optimizer},
                      {"val_ms", val_ms},
                      {"explicit_sync_ms", times.explicit_sync},
                      {"data_wait_ms", times.data_wait},
                      {"comm_ms", times.comm},
                      {"host_ms", times.host},
                      {"phases_ms", times.phases()},
                      {"step_ms", times.step}};
  write(json);
  if (step > 10 && step % settings_.io.training_timing_every != 0) return;
  std::string line = fmt::format("timing_breakdown step:{} micro_steps:{}", step, micro_steps_);
  std::vector<const char*> names = {"batch_cpu_ms", "batch_h2d_ms",    "forward_ms",
                                    "backward_ms",  "grad_clip_ms",    "optimizer_ms",
                                    "val_ms",       "explicit_sync_ms"};
  if (events) names.insert(names.end(), {"data_wait_ms", "comm_ms", "host_ms"});
  for (const char* name : names) line += fmt::format(" {}:{:.2f}", name, json[name].get<double>());
  log_info(
      "{} (per_optimizer_step; forward/backward/batch averaged over micro_steps; "
      "grad_accum_steps={})",
      line, micro_steps_);
}

void Report::progress(const StepResult& result) const {
  const auto& run = settings_.run;
  const auto step = result.step;
  const double elapsed_ms = result.elapsed_ms;
  const double step_ms = elapsed_ms / static_cast<double>(step);
  const double rate = static_cast<double>(tokens_per_step(settings_, world_size_)) / step_ms * 1000;
  double left_ms = static_cast<double>(run.iterations - step) * step_ms;
  if (run.max_wallclock_seconds > 0) {
    left_ms = std::min(left_ms, run.max_wallclock_seconds * 1000 - elapsed_ms);
  }
  const auto left = static_cast<long>(std::max(left_ms, 0.0) / 1000);
  std::string line =
      fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  ETA {}:{:02}:{:02}", step,
                  run.iterations, result.loss, rate, left / 3600, left / 60 % 60, left % 60);
  if (result.pass) line += fmt::format("  pass {}", *result.pass);
  if (machine_.peak_flops > 0) {
    const double flops = rate * training_flops_per_token(settings_.model, run.train_seq_len);
    line += fmt::format("  MFU {:.1f}%", 100 * flops / machine_.peak_flops);
  }
  progress_line(line);
}

void Report::validation(std::int64_t step, const Score& score, double elapsed_ms, double val_ms) {
  log_info("step:{}/{} val_loss:{:.4f}{} train_time:{:.0f}ms step_avg:{:.2f}ms", step,
           settings_.run.iterations, score.loss, bpb_text(score), elapsed_ms,
           elapsed_ms / static_cast<double>(std::max<std::int64_t>(step, 1)));
  log_info("val_stage_time_ms:{:.0f}ms step:{}/{}", val_ms, step, settings_.run.iterations);
  auto json = score_json("val", score);
  json["step"] = step;
  json["val_time_ms"] = val_ms;
  write(json);
  last_ = {step, score.loss};
  if (!best_ || score.loss < best_->loss) best_ = last_;
}

void Report::validation_summary() {
  log_info("best_val_loss:{:.4f} step:{} last_val_loss:{:.4f} step:{}", best_->loss, best_->step,
           last_->loss, last_->step);
  write({{"event", "val_summary"},
         {"best_val_loss", best_->loss},
         {"best_step", best_->step},
         {"last_val_loss", last_->loss},
         {"last_step", last_->step}});
}

void Report::stopping_early(std::int64_t step, double elapsed_ms) const {
  log_info("stopping_early: wallclock_cap train_time:{:.0f}ms step:{}/{}", elapsed_ms, step,
           settings_.run.iterations);
}

void Report::closing(double train_ms, double val_ms) {
  take_names();  // of a run without steps
  log_info("timing_train_loop_ms:{:.0f}ms timing_val_total_ms:{:.0f}ms", train_ms, val_ms);
  const auto peak = peak_memory(machine_.device);
  log_info("peak memory allocated: {:.0f} MiB reserved: {:.0f} MiB",
           static_cast<double>(peak.allocated) / kMiB, static_cast<double>(peak.reserved) / kMiB);
}

void Report::final_score(const std::string& line_name, const std::string& name, const Score& score,
                         double ms) {
  log_info("{} val_loss:{:.4f}{} eval_time:{:.0f}ms", line_name, score.loss, bpb_text(score), ms);
  auto json = score_json("final", score);
  json["name"] = name;
  write(json);
}

}  // namespace tg
