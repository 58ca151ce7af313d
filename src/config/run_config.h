#pragma once
// Length of a run, and the batches of its steps and evaluations.
#include <cstdint>
#include <string>

#include "config/mode.h"
#include "config/setting.h"
#include "config/types/schedule.h"
#include "config/types/values.h"

namespace tg {

struct RunConfig {
  std::int64_t val_batch_size = 524288;
  std::int64_t val_tokens = 0;
  std::int64_t val_loss_every = 4000;
  std::int64_t train_log_every = 500;
  std::int64_t iterations = 20000;
  std::int64_t schedule_iterations = 0;
  std::int64_t warmdown_iters = 3500;
  NumberOrAuto warmdown_frac{.automatic = true};
  bool warmdown_whole_steps = false;
  double min_lr = 0;
  double lr_floor = 0;
  NumberSchedule lr_scale = 1.0;
  std::int64_t warmup_steps = 20;
  CountSchedule train_batch_tokens = 786432;
  CountOrAuto grad_accum_steps;
  std::int64_t pass_tokens = 0;
  CountSchedule train_seq_len = 2048;
  std::int64_t eval_seq_len = 2048;
  std::int64_t eval_stride = 64;
  bool validation_mask = false;
  std::string validation_mask_vocabulary;
  double max_wallclock_seconds = 600;
  double gptq_reserve_seconds = 0;

  static void visit(auto& s, const auto& line, const auto& all) {
    const bool follows_lr_trace = !all.optim.lr_trace.empty();
    const bool by_fraction = !s.warmdown_frac.automatic;  // of the schedule, in the warm-down
    const auto of_fraction =
        role::free.ineffective_if(!by_fraction, "has no effect without WARMDOWN_FRAC");
    line("val_batch_size", s.val_batch_size, within(1, most_tokens), role::free,
         "validation tokens per round, all ranks together");
    line("val_tokens", s.val_tokens, within(0, most_tokens), role::free.common(),
         "validation tokens in all; 0: the whole split");
    line("val_loss_every", s.val_loss_every, at_least(0), role::free.common(),
         "steps between validations; 0: at the end only");
    line("train_log_every", s.train_log_every, at_least(0), role::free,
         "steps between lines of the training loss; 0: none");
    line("iterations", s.iterations, at_least(0), role::free.common(),
         "optimizer steps, unless the clock ends the run");
    line("schedule_iterations", s.schedule_iterations, at_least(0),
         role::fixed_if(s.schedule_iterations > 0 && !follows_lr_trace)
             .ineffective_if(follows_lr_trace,
                             "has no effect with LR_TRACE, which has the schedule"),
         "steps of the schedule of learning rate and batches, also where the run ends earlier or "
         "later, or by the clock; 0: ITERATIONS, and with a cap the clock");
    line("warmdown_iters", s.warmdown_iters, at_least(0),
         role::free.ineffective_if(by_fraction, "has no effect with WARMDOWN_FRAC"),
         "last steps of the schedule, in which the learning rate falls to 0");
    line("warmdown_frac", s.warmdown_frac, at_least(0), role::free,
         "last fraction of the schedule, or of its time where it follows the clock, in which the "
         "learning rate falls to MIN_LR; 0: never; auto: WARMDOWN_ITERS decides");
    line("warmdown_whole_steps", s.warmdown_whole_steps, anything,
         of_fraction.of_recipe(RecipeChoice::speedrun_89),
         "the warm-down of WARMDOWN_FRAC begins with a whole step, rounded down, and LR_FLOOR is "
         "reached at the schedule's end");
    line("min_lr", s.min_lr, within(0, 1), of_fraction.of_recipe(RecipeChoice::last_record),
         "lowest factor on the learning rates in the warm-down of WARMDOWN_FRAC");
    line(
        "lr_floor", s.lr_floor, within(0, 1), of_fraction.of_recipe(RecipeChoice::speedrun_43),
        "factor to which the warm-down of WARMDOWN_FRAC takes the learning rates linearly, instead "
        "of MIN_LR");
    line("lr_scale", s.lr_scale, at_least(0), role::free,
         "factor on all learning rates, of which the warm-down takes them to LR_FLOOR; "
         "1,1.5@0.3: another from a fraction of the run (below 1) or a step on");
    line("warmup_steps", s.warmup_steps, at_least(0), role::free,
         "steps that run before the clock starts and are then undone");
    line("train_batch_tokens", s.train_batch_tokens, within(1, most_tokens), role::fixed.common(),
         "tokens per step, all ranks together; 98304,393216@0.3,786432@5000: another number from a "
         "fraction of the run (below 1) or a step on");
    line("grad_accum_steps", s.grad_accum_steps, within(0, most_parts), role::free.common(),
         "micro-batches per rank and step; 0: 8 / world size, rounded up; auto: as many, each "
         "split into the fewest parts that fit in the GPU's memory");
    line("pass_tokens", s.pass_tokens, within(0, most_tokens), role::free,
         "tokens that a forward and backward pass takes of a rank's micro-batches, several at once "
         "if they fit; 0: a pass for each");
    line("train_seq_len", s.train_seq_len, within(1, most_tokens_in_row), role::fixed.common(),
         "tokens of a training sequence; changes as TRAIN_BATCH_TOKENS does");
    line("eval_seq_len", s.eval_seq_len, within(0, most_tokens_in_row), role::free,
         "tokens of a sequence in the final evaluations; 0: as in training");
    line("eval_stride", s.eval_stride, at_least(0),
         role::free.ineffective_if(
             mode::windows_do_not_overlap(all),
             "is not below the evaluation's row: no sliding-window evaluation"),
         "stride of the sliding-window evaluation; 0: no such evaluation");
    line("validation_mask", s.validation_mask, anything,
         role::free.of_recipe(RecipeChoice::speedrun_89),
         "validation takes tokens out of the softmax that the tokenizer would never write after "
         "the one before");
    line("validation_mask_vocabulary", s.validation_mask_vocabulary, anything,
         role::free.path()
             .of_recipe(RecipeChoice::speedrun_89)
             .ineffective_if(!s.validation_mask, "has no effect without VALIDATION_MASK"),
         "JSON object of the tokenizer's pieces, bytes in hexadecimal, and their ids, which are "
         "their ranks; empty: TOKENIZER_PATH, a byte-level BPE with GPT-2's words");
    line("max_wallclock_seconds", s.max_wallclock_seconds, at_least(0), role::free.common(),
         "training time allowed; 0: no cap");
    line("gptq_reserve_seconds", s.gptq_reserve_seconds, at_least(0),
         role::free.of_recipe(RecipeChoice::last_record)
             .ineffective_if(s.max_wallclock_seconds == 0,
                             "has no effect without MAX_WALLCLOCK_SECONDS"),
         "seconds of MAX_WALLCLOCK_SECONDS that training leaves for quantisation");
  }
};

}  // namespace tg
