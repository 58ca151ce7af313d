#include "train/trainer.h"

#include <ATen/record_function.h>

#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "config/derived.h"
#include "data/prefetch.h"
#include "data/tokenizer.h"
#include "data/training_order.h"
#include "device/gpu.h"
#include "optim/schedule.h"
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
  communicator.time_collective_waits(settings.io.training_timing_breakdown != TimingBreakdown::off);
  const int world = communicator.world_size();
  RunFacts facts{.parameters = table_.element_count(),
                 .train_shards = tokens_.train->count(),
                 .train_tokens = tokens_.train->known_tokens(),
                 .planned_tokens = static_cast<double>(settings.run.iterations) *
                                   static_cast<double>(tokens_per_step(settings, world)),
                 .val_pattern = validation_.pattern(),
                 .val_tokens = validation_.tokens(),
                 .micro_steps = micro_steps(settings, communicator.world_size()),
                 .counts_bytes = !settings.data.tokenizer_path.empty()};
  for (const auto& row : table_.rows()) {
    if (row.kind == ParameterKind::mtp_head) facts.mtp_parameters += row.value.numel();
  }
  report_.opening(facts);
  if (communicator.rank() == 0) {
    for (const auto& notice : table_.pattern_notices()) warn_line(notice);
  }
}

void Trainer::run() {
  warm_up();
  average_.emplace(table_, settings_.averaging, settings_.runtime.record_quirks);
  const auto& run = settings_.run;
  waited_before_ms_ = feeder_.waited_ms();
  start_clock();
  for (std::int64_t step = 0;; ++step) {
    const double elapsed = elapsed_at(step);
    if (decide(step, elapsed).stop) last_step_ = step;
    const bool last = step == run.iterations || step == last_step_;
    if (last || (run.val_loss_every > 0 && step % run.val_loss_every == 0)) validate(step);
    if (trace_) trace(step, last);
    if (last) break;
    train(step, elapsed);
    if (step == 0) communicator_.begin_training();
  }
  settle();
  clock_.stop();
  report_.validation_summary();
  if (last_step_ && *last_step_ < run.iterations)
    report_.stopping_early(*last_step_, clock_.elapsed_ms());
  finish();
}

// The device is idle: it begins with the next step.
void Trainer::start_clock() {
  clock_.start();
  clock_started_ms_ = clock_.elapsed_ms();
  clock_started_.emplace(compute_stream(machine_.device));
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

void Trainer::train(std::int64_t step, double elapsed_ms) {
  set_log_step(static_cast<long>(step));
  if (communicator_.watch() != nullptr) communicator_.watch()->set_step(step);
  const double scale = lr_scale(settings_.run, step, elapsed_ms);
  if (decide(step, elapsed_ms).fake_quant && !fake_quant_) {
    fake_quant_ = true;
    log_info("late_qat:enabled step:{} scale:{:.4f}", step, scale);
  }
  RECORD_USER_SCOPE("train_step");
  const PeerWatch::Scope launching(watch_of_launches(communicator_, machine_.device));
  phases_.begin_step(feeder_);
  const auto numbers = step_.run({.lr_scale = scale,
                                  .momentum = muon_momentum(settings_.optim, step),
                                  .clip_norm = settings_.optim.grad_clip_norm,
                                  .clock_ms = settled_ms_,
                                  .fake_quant = fake_quant_});
  const bool first_swa = [&] {
    const auto phase = phases_.enter(Phase::optimizer);
    return average_->update(step + 1, scale);
  }();
  Launched launched{step + 1,
                    settled_,
                    scale,
                    Event(compute_stream(machine_.device)),
                    Readback(numbers),
                    phases_.end_step(feeder_),
                    std::exchange(validation_before_step_ms_, 0),
                    tokens_read(step + 1)};
  settle();  // the step before: its numbers arrive while this one runs
  pending_.emplace(std::move(launched));
  if (machine_.device.is_cpu()) settle();
  if (first_swa && (average_->collects_swa() || settings_.runtime.record_quirks)) {
    log_info("swa:start step:{}", step + 1);
  }
}

void Trainer::settle() {
  if (!pending_) return;
  auto [step, settled_before, scale, ended, readback, record, val_ms, tokens_read] =
      std::move(*pending_);
  pending_.reset();
  const auto* numbers = [&] {
    const PeerWatch::Scope waiting(communicator_.watch());
    return readback.wait().const_data_ptr<float>();
  }();
  settled_ = step;
  settled_ms_ = clock_started_ms_ + clock_started_->ms_until(ended);
  pace_.ended(settled_before, numbers[3]);
  const double loss = numbers[0], norm = numbers[1];
  const auto skipped = finite_watch_.after_step(step, loss, norm, numbers[2] != 0);
  if (skipped && communicator_.rank() == 0) warn_line(*skipped);
  if (record) report_.timing(step, record->times(), val_ms);
  const bool streamed = settings_.data.loader_order == LoaderOrder::stream;
  report_.train({.step = step,
                 .loss = loss,
                 .lr_scale = scale,
                 .elapsed_ms = settled_ms_,
                 .token_offset = streamed ? std::optional(tokens_read) : std::nullopt,
                 .pass = pass_of(tokens_read)});
  const double waited = feeder_.waited_ms() - waited_before_ms_;
  if (const auto warning = stall_watch_.after_step(step, waited, settled_ms_)) {
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
  start_clock();
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
  start_clock();
}

Trainer::Decisions Trainer::decide(std::int64_t step, double elapsed_ms) const {
  const double cap_ms = settings_.run.max_wallclock_seconds * 1000;
  const double scale = lr_scale(settings_.run, step, elapsed_ms);
  return {.stop = cap_ms > 0 && elapsed_ms >= cap_ms,
          .fake_quant = scale < settings_.averaging.late_qat_threshold,
          .swa = average_->takes_swa(step + 1, scale)};
}

// Rank 0's training time when `step` steps have ended, the same on every rank. Where it decides
// nothing, it is expected from past steps that all ranks know, so that nobody waits for a step that
// is under way; where an error of one step's length would decide otherwise, it is measured.
double Trainer::elapsed_at(std::int64_t step) {
  if (settings_.run.max_wallclock_seconds == 0) return 0;  // decides nothing at all
  const bool known_at_once = machine_.device.is_cpu() && communicator_.world_size() == 1;
  if (!known_at_once && pace_.known()) {
    const double expected = pace_.expected_ms(step), tolerance = pace_.tolerance_ms();
    if (decide(step, expected - tolerance) == decide(step, expected + tolerance)) return expected;
  }
  settle();
  return from_rank_0(settled_ms_);
}

// Targets of a stream overlap with the inputs of the next micro-batch: it counts what it passed.
std::int64_t Trainer::tokens_read(std::int64_t steps) const {
  if (settings_.data.loader_order == LoaderOrder::stream) return feeder_.state().token_offset;
  return steps * tokens_per_step(settings_, communicator_.world_size());
}

std::optional<std::int64_t> Trainer::pass_of(std::int64_t tokens_read) const {
  const auto all = tokens_.train->known_tokens();
  if (!all) return {};
  return (tokens_read + *all - 1) / *all;
}

double Trainer::from_rank_0(double value) {
  if (communicator_.world_size() == 1) return value;
  const auto options = at::TensorOptions(machine_.device).dtype(at::kDouble);
  const auto sum = at::full({1}, communicator_.rank() == 0 ? value : 0, options);
  communicator_.sum(sum).wait();
  const PeerWatch::Scope waiting(communicator_.watch());
  return Readback(sum).wait().const_data_ptr<double>()[0];
}

void Trainer::wait_for_device() {
  const PeerWatch::Scope waiting(communicator_.watch());
  if (machine_.device.is_cuda()) wait_for_gpu();
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
