#include "config/derived.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/is_in.h"
#include "config/mode.h"

namespace tg {

std::int64_t parts_of_batch(const RunConfig& run, int world_size) {
  if (run.grad_accum_steps.value > 0) return world_size * run.grad_accum_steps.value;
  return std::max<std::int64_t>(kMicroBatches, world_size);
}

std::int64_t micro_batches(const Settings& settings, int world_size) {
  const bool strided = settings.data.loader_order == LoaderOrder::strided;
  return strided ? micro_steps(settings, world_size) * world_size
                 : parts_of_batch(settings.run, world_size);
}

std::int64_t micro_steps(const Settings& settings, int world_size) {
  return (parts_of_batch(settings.run, world_size) + world_size - 1) / world_size;
}

std::int64_t micro_batch_tokens(const Settings& settings, int world_size) {
  return settings.run.train_batch_tokens.largest() / parts_of_batch(settings.run, world_size);
}

std::int64_t longest_training_row(const Settings& settings, int world_size) {
  return mode::batches_are_rows(settings) ? micro_batch_tokens(settings, world_size)
                                          : settings.run.train_seq_len.largest();
}

CountSchedule segment_limits(const Settings& settings) {
  const auto& [schedule, automatic] = settings.data.segment_limit;
  return automatic ? CountSchedule(settings.run.train_seq_len.largest()) : schedule;
}

std::int64_t segment_limit(const Settings& settings) {
  return segment_limits(settings).last();
}

bool batches_change(const Settings& settings) {
  const auto& run = settings.run;
  return !run.train_batch_tokens.constant() || !run.train_seq_len.constant() ||
         !segment_limits(settings).constant();
}

double training_seconds(const RunConfig& run) {
  return run.max_wallclock_seconds > 0 ? run.max_wallclock_seconds - run.gptq_reserve_seconds : 0;
}

std::int64_t schedule_iterations(const RunConfig& run) {
  return run.schedule_iterations > 0 ? run.schedule_iterations : run.iterations;
}

bool schedule_follows_clock(const RunConfig& run) {
  return run.max_wallclock_seconds > 0 && run.schedule_iterations == 0;
}

RunProgress run_progress(const RunConfig& run, std::int64_t steps, double elapsed_ms) {
  const auto ratio = [](double done, double all) {
    return all > 0 ? std::min(done / all, 1.0) : 0;
  };
  const double by_steps =
      ratio(static_cast<double>(steps), static_cast<double>(schedule_iterations(run)));
  const double by_time =
      schedule_follows_clock(run) ? ratio(elapsed_ms, training_seconds(run) * 1000) : 0;
  return {.step = steps, .share = std::max(by_steps, by_time)};
}

BatchShape batch_shape(const Settings& settings, int world_size, const RunProgress& progress) {
  const auto& run = settings.run;
  const auto tokens = run.train_batch_tokens.at(progress) / parts_of_batch(run, world_size);
  const bool one_row = mode::batches_are_rows(settings);
  return {
      .tokens = tokens,
      .seq_len = one_row ? tokens : run.train_seq_len.at(progress),
      .segment_limit = mode::limits_segments(settings) ? segment_limits(settings).at(progress) : 0};
}

std::vector<BatchShape> batch_shapes(const Settings& settings, int world_size) {
  // Points at which a schedule changes. How fractions and steps interleave is known only during the
  // run, so every combination counts.
  std::set<double> shares = {0}, steps = {0};
  const auto limits = segment_limits(settings);
  for (const auto* schedule :
       {&settings.run.train_batch_tokens, &settings.run.train_seq_len, &limits}) {
    for (const auto& stage : schedule->stages())
      (stage.is_share() ? shares : steps).insert(stage.from);
  }
  std::vector<BatchShape> shapes;
  for (const double share : shares) {
    for (const double step : steps) {
      const auto shape = batch_shape(settings, world_size,
                                     {.step = static_cast<std::int64_t>(step), .share = share});
      if (!is_in(shapes, shape)) shapes.push_back(shape);
    }
  }
  return shapes;
}

std::int64_t tokens_per_step(const Settings& settings, int world_size, const BatchShape& shape) {
  return micro_batches(settings, world_size) * shape.tokens;
}

std::int64_t tokens_per_step(const Settings& settings, int world_size) {
  return tokens_per_step(settings, world_size, batch_shape(settings, world_size, {}));
}

std::int64_t most_tokens_per_step(const Settings& settings, int world_size) {
  return micro_batches(settings, world_size) * micro_batch_tokens(settings, world_size);
}

double planned_tokens(const Settings& settings, int world_size) {
  const auto& run = settings.run;
  std::set<std::int64_t> changes = {0, run.iterations};  // steps before which the batch changes
  for (const auto& stage : run.train_batch_tokens.stages()) {
    const double step =
        stage.is_share() ? stage.from * static_cast<double>(schedule_iterations(run)) : stage.from;
    changes.insert(std::min(static_cast<std::int64_t>(std::ceil(step)), run.iterations));
  }
  double tokens = 0;
  for (auto from = changes.begin(), to = std::next(from); to != changes.end(); from = to++) {
    const auto shape =
        batch_shape(settings, world_size, run_progress(run, *from, /*elapsed_ms=*/0));
    tokens += static_cast<double>(*to - *from) *
              static_cast<double>(tokens_per_step(settings, world_size, shape));
  }
  return tokens;
}

std::int64_t joined_micro_batches(const Settings& settings, int world_size, std::int64_t tokens) {
  const auto of_rank = micro_steps(settings, world_size);
  if (measures_memory(settings) || of_rank * world_size != micro_batches(settings, world_size))
    return 1;
  auto joined = std::clamp<std::int64_t>(settings.run.pass_tokens / tokens, 1, of_rank);
  while (of_rank % joined != 0) --joined;
  return joined;
}

bool measures_memory(const Settings& settings) {
  return settings.run.grad_accum_steps.automatic;
}

bool replays_evaluations(const Settings& settings) {
  return settings.runtime.graphs && !measures_memory(settings);
}

RecipeChoice resolved_recipe(const Settings& settings) {
  const auto chosen = settings.model.recipe;
  if (chosen != RecipeChoice::automatic) return chosen;
  if (settings.model.value_residual == ValueResidual::blend) return RecipeChoice::speedrun;
  return settings.optim.muon_coefficients == MuonCoefficients::polar_express
             ? RecipeChoice::last_record
             : RecipeChoice::record;
}

double schedule_share(const RunConfig& run, std::int64_t steps, double elapsed_ms) {
  if (schedule_follows_clock(run)) return elapsed_ms / (training_seconds(run) * 1000);
  const auto all = std::max<std::int64_t>(schedule_iterations(run), 1);
  return static_cast<double>(steps) / static_cast<double>(all);
}

double embed_wd(const OptimConfig& optim) {
  return optim.embed_wd.automatic ? optim.adam_wd : optim.embed_wd.value;
}

std::int64_t mlp_hidden(const ModelConfig& model) {
  return static_cast<std::int64_t>(model.mlp_mult * static_cast<double>(model.model_dim));
}

std::int64_t head_dim(const ModelConfig& model) {
  return model.model_dim / model.num_heads;
}

std::int64_t qk_head_dim(const ModelConfig& model) {
  return model.qk_head_dim > 0 ? model.qk_head_dim : head_dim(model);
}

std::int64_t attention_window(const ModelConfig& model, std::int64_t block) {
  const auto& windows = model.attention_window;
  return windows.size() == 1 ? windows.front() : windows.at(static_cast<std::size_t>(block));
}

bool is_drawn_projection(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kNarrowest = 64;
  return rows >= kNarrowest && columns >= kNarrowest;
}

std::int64_t eval_length(const Settings& settings) {
  return settings.run.eval_seq_len > 0 ? settings.run.eval_seq_len
                                       : settings.run.train_seq_len.last();
}

std::int64_t validation_length(const Settings& settings) {
  return mode::batches_are_rows(settings) ? eval_length(settings)
                                          : settings.run.train_seq_len.last();
}

bool validates_segments_of_rows(const Settings& settings) {
  return mode::batches_are_rows(settings) && mode::segments_attention(settings);
}

bool validates_long_rows(const Settings& settings) {
  return settings.data.loader_order == LoaderOrder::documents &&
         validates_segments_of_rows(settings);
}

std::int64_t validation_parts(const Settings& settings, int world_size) {
  return validates_segments_of_rows(settings) ? kMicroBatches
                                              : world_size * micro_steps(settings, world_size);
}

IoConfig effective_io(const Settings& settings) {
  IoConfig io = settings.io;
  if (io.training_timing_breakdown == TimingBreakdown::sync) {
    io.train_prefetch = io.train_copy_stream = io.val_prefetch = io.val_copy_stream = false;
  }
  return io;
}

std::int64_t next_targets(const ObjectiveConfig& objective) {
  std::size_t most = 0;
  for (const auto& stage : objective.mtp_weights.stages())
    most = std::max(most, stage.value.size());
  return static_cast<std::int64_t>(most);
}

bool weighs_targets(const ObjectiveConfig& objective) {
  const ObjectiveConfig plain;
  return objective.mtp_weights != plain.mtp_weights ||
         objective.prefix_weight != plain.prefix_weight;
}

std::vector<double> step_target_weights(const Settings& settings, const RunProgress& progress) {
  const auto& objective = settings.model.objective;
  if (!weighs_targets(objective)) return {};
  const auto steps = schedule_iterations(settings.run);
  auto weights = ramps_at(objective.mtp_weights, progress, steps);
  weights.resize(static_cast<std::size_t>(next_targets(objective)));
  weights.push_back(ramps_at(objective.prefix_weight, progress, steps).front());
  return weights;
}

std::int64_t attention_context(const Settings& settings, std::int64_t row) {
  const auto limit = segment_limit(settings);
  return mode::segments_attention(settings) && limit > 0 ? std::min(row, limit) : row;
}

std::int64_t adaptation_row(const Settings& settings) {
  const auto given = settings.phased_ttt.ttt_eval_seq_len;
  if (given > 0) return given;
  const auto& run = settings.run;
  return attention_context(settings, mode::batches_are_rows(settings)
                                         ? run.train_batch_tokens.last() / kMicroBatches
                                         : run.train_seq_len.last());
}

namespace {

// Returns the longest row for which the last record's script builds its RoPE table before training.
std::int64_t longest_row_met(const Settings& settings, int world_size) {
  const auto& run = settings.run;
  auto longest = longest_training_row(settings, world_size);
  if (run.warmup_steps > 0)
    longest = std::max(longest, run.train_batch_tokens.largest() / world_size);
  if (run.val_loss_every == 0) return longest;
  const auto length = eval_length(settings);
  return std::max(longest, run.val_batch_size / kMicroBatches / length * length);
}

std::int64_t rope_longest(const Settings& settings, int world_size) {
  const auto& given = settings.model.rope_longest;
  if (!given.automatic) return given.value;
  const bool quirks = settings.runtime.record_quirks;
  if (settings.model.rope_yarn == RopeYarn::on)
    return quirks ? longest_row_met(settings, world_size)
                  : settings.run.train_batch_tokens.largest();
  return quirks ? 0 : attention_context(settings, longest_training_row(settings, world_size));
}

}  // namespace

RopeStretch rope_stretch(const Settings& settings, int world_size) {
  const auto yarn = settings.model.rope_yarn;
  if (yarn == RopeYarn::off) return {.trained = 0};
  RopeStretch stretch{.longest = rope_longest(settings, world_size)};
  if (yarn == RopeYarn::on) {
    stretch.trained = settings.run.train_seq_len.last();
    stretch.by_row = true;
  }
  return stretch;
}

void resolve_rope_longest(Settings& settings, int world_size) {
  const auto longest = rope_stretch(settings, world_size).longest;
  if (longest > 0) settings.model.rope_longest = {.value = longest};
}

}  // namespace tg
