#include "train/trainer.h"

#include <ATen/record_function.h>

#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "config/check.h"
#include "data/prefetch.h"
#include "data/tokenizer.h"
#include "data/training_order.h"
#include "optim/schedule.h"
#include "train/gpu.h"
#include "train/model_files.h"

namespace tg {

namespace {

std::optional<ByteTable> load_byte_table(const Settings& settings) {
  if (settings.data.tokenizer_path.empty()) return {};
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  return make_byte_table(Tokenizer(settings.data.tokenizer_path, vocab), vocab);
}

std::unique_ptr<BatchSource> make_train_source(const Settings& settings, const TokenSource& tokens,
                                               at::Device device, const Communicator& communicator,
                                               SpanLog& spans) {
  auto order =
      make_training_order(settings, tokens, communicator.rank(), communicator.world_size());
  const auto io = effective_io(settings);
  std::optional<PrefetchOptions> ahead;
  if (io.train_prefetch) {
    ahead = {static_cast<int>(io.train_prefetch_queue),
             static_cast<int>(io.train_prefetch_workers)};
  }
  return make_source(std::move(order), {.seq_len = settings.run.train_seq_len, .spans = &spans},
                     ahead, token_allocator(device));
}

// On a GPU the host also waits for the others where the queue of launches is full of their work.
PeerWatch* watch_of_launches(Communicator& communicator, at::Device device) {
  return device.is_cuda() ? communicator.watch() : nullptr;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

Trainer::Trainer(const Settings& settings, const Machine& machine, const std::string& output_dir,
                 const Origins& origins, Communicator& communicator)
    : settings_(settings),
      machine_(machine),
      communicator_(communicator),
      output_dir_(output_dir),
      tokens_(open_splits(settings.data, static_cast<int>(settings.model.vocab_size))),
      validation_(settings, tokens_.val, load_byte_table(settings), machine.device, communicator),
      table_([&] {
        const PeerWatch::Work making(communicator.watch(), "making the initial weights");
        return initial_weights(settings, machine);
      }()),
      model_(settings.model, table_, {machine.compute, settings.runtime.record_quirks}),
      optimizer_(table_, settings.model, settings.optim, machine.compute,
                 settings.runtime.record_quirks, communicator),
      feeder_(make_train_source(settings, *tokens_.train, machine.device, communicator, spans_),
              machine.device, effective_io(settings).train_copy_stream, &spans_),
      phases_(settings.io.training_timing_breakdown, settings.runtime.profile == ProfileMode::nvtx,
              machine.device, &spans_),
      step_(model_, optimizer_, feeder_, phases_, communicator,
            micro_batches(settings, communicator.world_size()), machine.device,
            settings.runtime.graphs),
      report_(output_dir, settings, origins, machine, communicator),
      finite_watch_(settings.runtime),
      fake_quant_(settings.averaging.qat_enabled) {
  if (settings.runtime.profile == ProfileMode::on) {
    trace_.emplace(fmt::format("{}/trace_rank{}.json", output_dir, communicator.rank()),
                   machine.device, spans_);
  }
  communicator.time_waits(settings.io.training_timing_breakdown != TimingBreakdown::off);
  RunFacts facts{.parameters = table_.element_count(),
                 .train_shards = tokens_.train->count(),
                 .val_pattern = validation_.pattern(),
                 .val_tokens = validation_.tokens(),
                 .micro_steps = micro_steps(settings, communicator.world_size()),
                 .counts_bytes = !settings.data.tokenizer_path.empty()};
  for (const auto& row : table_.rows()) {
    if (row.kind == ParameterKind::mtp_head) facts.mtp_parameters += row.value.numel();
  }
  report_.opening(facts);
}

void Trainer::run() {
  warm_up();
  if (communicator.rank() == 0) {
    for (const auto& notice : table_.pattern_notices()) warn_line(notice);
  }
  average_.emplace(table_, settings_.averaging, settings_.runtime.record_quirks);
  const auto& run = settings_.run;
  waited_before_ms_ = feeder_.waited_ms();
  clock_.start();
  for (std::int64_t step = 0;; ++step) {
    const bool last = step == run.iterations || step == last_step_;
    if (last || (run.val_loss_every > 0 && step % run.val_loss_every == 0)) validate(step);
    if (trace_) trace(step, last);
    if (last) break;
    train(step);
    if (step == 0) communicator_.begin_training();
    if (!last_step_ && cap_reached()) last_step_ = step + 1;
  }
  settle();
  clock_.stop();
  if (last_step_ && *last_step_ < run.iterations)
    report_.stopping_early(*last_step_, clock_.elapsed_ms());
  finish();
}

// Real steps at the base learning rates and without clipping, as in the scripts, so that kernels
// are chosen and memory is laid out before the clock starts; then weights, optimizer and loader go
// back to where they were.
void Trainer::warm_up() {
  if (settings_.run.warmup_steps == 0) return;
  const at::NoGradGuard no_grad;
  const auto loader = feeder_.state();
  auto everything = optimizer_.state();
  for (const auto& named : table_.named_values()) everything.push_back(named);
  std::vector<at::Tensor> before;
  for (const auto& [name, value] : everything) before.push_back(value.clone());

  const PeerWatch::Scope launching(watch_of_launches(communicator_, machine_.device));
  const StepPlan plan{.momentum = settings_.optim.muon_momentum, .fake_quant = fake_quant_};
  for (std::int64_t step = 1; step <= settings_.run.warmup_steps; ++step) {
    const at::AutoGradMode with_gradients(true);
    step_.run(plan);
    report_.warm_up(step);
  }
  for (std::size_t i = 0; i < before.size(); ++i) everything[i].second.copy_(before[i]);
  feeder_.restore(loader);
  wait_for_device();
}

void Trainer::train(std::int64_t step) {
  set_log_step(static_cast<long>(step));
  if (communicator_.watch() != nullptr) communicator_.watch()->set_step(step);
  const double elapsed = clock_.elapsed_ms();
  const double own_scale = lr_scale(settings_.run, step, elapsed);
  const double scale = known_lr_scale(own_scale);
  const double threshold = settings_.averaging.late_qat_threshold;
  if (threshold > 0 && scale < threshold && !fake_quant_) {
    fake_quant_ = true;
    log_info("late_qat:enabled step:{} scale:{:.4f}", step, scale);
  }
  RECORD_USER_SCOPE("train_step");
  const PeerWatch::Scope launching(watch_of_launches(communicator_, machine_.device));
  phases_.begin_step(feeder_);
  const auto numbers = step_.run({.lr_scale = own_scale,
                                  .momentum = muon_momentum(settings_.optim, step),
                                  .clip_norm = settings_.optim.grad_clip_norm,
                                  .elapsed_ms = elapsed,
                                  .fake_quant = fake_quant_});
  const bool first_swa = [&] {
    const auto phase = phases_.enter(Phase::optimizer);
    return average_->update(step + 1, scale);
  }();
  Launched launched{step + 1,
                    own_scale,
                    Readback(numbers),
                    phases_.end_step(feeder_),
                    std::exchange(validation_before_step_ms_, 0),
                    {}};
  if (settings_.data.loader_order == LoaderOrder::stream) {
    launched.token_offset = feeder_.state().token_offset;
  }
  settle();  // the step before: its numbers arrive while this one runs
  pending_.emplace(std::move(launched));
  if (machine_.device.is_cpu()) settle();
  if (first_swa && (average_->collects_swa() || settings_.runtime.record_quirks)) {
    log_info("swa:start step:{}", step + 1);
  }
}

void Trainer::settle() {
  if (!pending_) return;
  auto [step, scale, readback, record, val_ms, token_offset] = std::move(*pending_);
  pending_.reset();
  const auto* numbers = [&] {
    const PeerWatch::Scope waiting(communicator_.watch());
    return readback.wait().const_data_ptr<float>();
  }();
  settled_lr_scale_ = numbers[3];
  settled_elapsed_ms_ = numbers[4];
  const double loss = numbers[0], norm = numbers[1];
  const auto skipped = finite_watch_.after_step(step, loss, norm, numbers[2] != 0);
  if (skipped && communicator_.rank() == 0) warn_line(*skipped);
  if (record) report_.timing(step, record->times(), val_ms, step == last_step_);
  report_.train({.step = step,
                 .loss = loss,
                 .lr_scale = scale,
                 .elapsed_ms = clock_.elapsed_ms(),
                 .token_offset = token_offset},
                step == last_step_);
  const double waited = feeder_.waited_ms() - waited_before_ms_;
  if (const auto warning = stall_watch_.after_step(step, waited, clock_.elapsed_ms())) {
    warn_line(*warning);
  }
}

// Begins and ends the trace of the steps that PROFILE_START and PROFILE_STEPS ask for.
void Trainer::trace(std::int64_t step, bool last) {
  const auto first = settings_.runtime.profile_start;
  const bool begins = step == first && !last;
  const bool ends = trace_->running() && (last || step >= first + settings_.runtime.profile_steps);
  if (!begins && !ends) return;
  settle();
  clock_.stop();
  if (begins) trace_->start();
  if (ends) {
    const PeerWatch::Work writing(communicator_.watch(), "writing the trace to " + output_dir_);
    trace_->stop();
  }
  clock_.start();
}

void Trainer::validate(std::int64_t step) {
  settle();
  wait_for_device();
  clock_.stop();
  const auto began = std::chrono::steady_clock::now();
  const auto score = validation_.score(model_, settings_.run.train_seq_len);
  const double spent = milliseconds_since(began);
  validation_ms_ += spent;
  validation_before_step_ms_ += spent;
  report_.validation(step, score, clock_.elapsed_ms(), spent);
  clock_.start();
}

// What the host may act on. Where the clock decides, that is rank 0's, and all ranks know it of the
// same past step, so that they do the same at the same step.
double Trainer::known_lr_scale(double own) const {
  const bool by_clock = settings_.run.max_wallclock_seconds > 0;
  return by_clock && communicator_.world_size() > 1 ? settled_lr_scale_ : own;
}

void Trainer::wait_for_device() {
  const PeerWatch::Scope waiting(communicator_.watch());
  if (machine_.device.is_cuda()) wait_for_gpu();
}

bool Trainer::cap_reached() const {
  const double cap_ms = settings_.run.max_wallclock_seconds * 1000;
  const double elapsed = communicator_.world_size() > 1 ? settled_elapsed_ms_ : clock_.elapsed_ms();
  return cap_ms > 0 && elapsed >= cap_ms;
}

void Trainer::finish() {
  report_.closing(clock_.elapsed_ms(), validation_ms_);
  const auto line = average_->apply();
  require_finite(table_);
  if (!line.empty()) {
    log_line(line);
    const auto began = std::chrono::steady_clock::now();
    const auto score = validation_.score(model_, settings_.run.train_seq_len);
    report_.final_score("DIAGNOSTIC post_ema", "DIAGNOSTIC_post_ema", score,
                        milliseconds_since(began));
  }
  if (communicator_.rank() == 0) {
    const PeerWatch::Work writing(communicator_.watch(), "writing the model to " + output_dir_);
    write_model(table_, output_dir_);
  }
  communicator_.barrier();
}

}  // namespace tg
