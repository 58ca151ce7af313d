#pragma once
// Length of a run, and the batches of its steps and evaluations.
#include <cstdint>

#include "config/count_or_auto.h"
#include "config/count_schedule.h"
#include "config/limits.h"

namespace tg {

struct RunConfig {
  std::int64_t val_batch_size = 524288;
  std::int64_t val_tokens = 0;
  std::int64_t val_loss_every = 4000;
  std::int64_t train_log_every = 500;
  std::int64_t iterations = 20000;
  std::int64_t schedule_iterations = 0;
  std::int64_t warmdown_iters = 3500;
  std::int64_t warmup_steps = 20;
  CountSchedule train_batch_tokens = 786432;
  CountOrAuto grad_accum_steps;
  CountSchedule train_seq_len = 2048;
  std::int64_t eval_seq_len = 2048;
  std::int64_t eval_stride = 64;
  double max_wallclock_seconds = 600;

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("val_batch_size", s.val_batch_size, within(1, most_tokens),
      "validation tokens a round, all ranks together");
    v("val_tokens", s.val_tokens, within(0, most_tokens), "validation tokens in all; 0: every one");
    v("val_loss_every", s.val_loss_every, at_least(0),
      "steps between validations; 0: at the end only");
    v("train_log_every", s.train_log_every, at_least(0),
      "steps between train lines; 0: no such lines");
    v("iterations", s.iterations, at_least(0), "optimizer steps, unless the clock ends the run");
    v("schedule_iterations", s.schedule_iterations, at_least(0),
      "steps of the schedule of learning rate and batches, also where the run ends earlier or "
      "later, or by the clock; 0: ITERATIONS, and with a cap the clock");
    v("warmdown_iters", s.warmdown_iters, at_least(0),
      "last steps of the schedule, in which the learning rate falls to 0");
    v("warmup_steps", s.warmup_steps, at_least(0), "steps before the clock starts, then rewound");
    v("train_batch_tokens", s.train_batch_tokens, within(1, most_tokens),
      "tokens of a step, all ranks together; 98304,393216@0.3,786432@5000: another number from a "
      "share of the run (below 1) or a step on");
    v("grad_accum_steps", s.grad_accum_steps, within(0, most_parts),
      "micro-batches of a rank and step; 0: 8 / world size, rounded up; auto: as many, each cut "
      "into the fewest parts that fit in the GPU's memory");
    v("train_seq_len", s.train_seq_len, within(1, most_tokens_in_row),
      "tokens of a training row; changes as TRAIN_BATCH_TOKENS does");
    v("eval_seq_len", s.eval_seq_len, within(0, most_tokens_in_row),
      "tokens of a row in the final evaluations; 0: as in training");
    v("eval_stride", s.eval_stride, at_least(0),
      "step of the sliding window; 0: no such evaluation");
    v("max_wallclock_seconds", s.max_wallclock_seconds, at_least(0),
      "training time allowed; 0: no cap");
  }
};

}  // namespace tg
