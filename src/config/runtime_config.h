#pragma once
// Use of the machine, and outputs of a run.
#include <cstdint>
#include <string>

#include "config/choices.h"
#include "config/every.h"
#include "config/fp8_parts.h"
#include "config/limits.h"

namespace tg {

struct IoConfig {
  bool train_prefetch = true;
  std::int64_t train_prefetch_queue = 2;
  std::int64_t train_prefetch_workers = 1;
  bool train_copy_stream = true;
  bool val_prefetch = true;
  std::int64_t val_prefetch_queue = 2;
  bool val_copy_stream = true;
  CountDevice val_bytecount_device = CountDevice::cpu;
  std::int64_t val_progress_log_every = 0;
  TimingBreakdown training_timing_breakdown = TimingBreakdown::off;
  std::int64_t training_timing_every = 200;

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
    v("train_prefetch", s.train_prefetch, anything, "read training batches ahead in a thread");
    v("train_prefetch_queue", s.train_prefetch_queue, within(1, 4096),
      "training batches kept ready");
    v("train_prefetch_workers", s.train_prefetch_workers, within(1, 256), "threads that read them");
    v("train_copy_stream", s.train_copy_stream, anything,
      "copy training batches on a stream of their own");
    v("val_prefetch", s.val_prefetch, anything, "read validation batches ahead in a thread");
    v("val_prefetch_queue", s.val_prefetch_queue, within(1, 4096), "validation batches kept ready");
    v("val_copy_stream", s.val_copy_stream, anything,
      "copy validation batches on a stream of their own");
    v("val_bytecount_device", s.val_bytecount_device, anything,
      "where the bytes of val_bpb are counted");
    v("val_progress_log_every", s.val_progress_log_every, at_least(0),
      "batches between lines; 0: none");
    v("training_timing_breakdown", s.training_timing_breakdown, anything,
      "time the phases of a step: 1 synchronises around each, events does not");
    v("training_timing_every", s.training_timing_every, at_least(1), "steps between such lines");
  }
};

struct RuntimeConfig {
  DeviceChoice device = DeviceChoice::automatic;
  ComputeDtype compute_dtype = ComputeDtype::automatic;
  AttentionChoice attention = AttentionChoice::automatic;
  bool fused = true;
  bool graphs = true;
  PadVocab pad_vocab = PadVocab::automatic;
  Fp8Parts fp8;
  ActivationRecompute activation_recompute = ActivationRecompute::off;
  double memory_limit_gb = 0;
  std::string init_from;
  WeightsChoice weights = WeightsChoice::automatic;
  std::string output_dir;
  ProfileMode profile = ProfileMode::off;
  std::int64_t profile_start = 10;
  std::int64_t profile_steps = 3;
  bool deterministic = false;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  std::int64_t nonfinite_limit = 10;
  double comm_timeout_s = 100;
  Every checkpoint_every;
  std::int64_t keep = 2;
  std::string resume = "auto";
  Artifact artifact = Artifact::int6;
  bool record_quirks = false;
  bool tensorboard = false;

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
    v("device", s.device, anything, "where to train; auto: the GPU where there is one");
    v("compute_dtype", s.compute_dtype, anything,
      "number format; auto: bf16 on CUDA, fp32 on the CPU; fp32 means everything; fp16 scales the "
      "loss");
    v("attention", s.attention, anything,
      "attention kernel; auto: cuDNN where it can, else flash, else math");
    v("fused", s.fused, anything, "own kernels; 0: plain ATen everywhere");
    v("graphs", s.graphs, anything,
      "replay passes, validation and (one GPU) the update as CUDA graphs");
    v("pad_vocab", s.pad_vocab, anything,
      "on a GPU, compute with a vocabulary padded to a multiple of 64; 0: never");
    v("fp8", s.fp8, anything,
      "compute these matrix products of training in FP8, on a Hopper GPU; 1: all of them");
    v("activation_recompute", s.activation_recompute, anything,
      "activations computed again in backward to save memory: the MLP's (light), or whole blocks'");
    v("memory_limit_gb", s.memory_limit_gb, within(0, 1 << 20),
      "GPU memory to use at most, in GiB, CUDA's own included; 0: all of it");
    v("init_from", s.init_from, anything,
      "initial weights: a run's folder, a checkpoint's, or a file; empty: drawn from SEED");
    v("weights", s.weights, anything,
      "of a checkpoint in INIT_FROM: raw, as trained, or ema, their average; auto: those that its "
      "run would end with");
    v("output_dir", s.output_dir, anything, "where results go; empty: logs/RUN_ID");
    v("profile", s.profile, anything, "write a trace, or mark phases for Nsight (nvtx)");
    v("profile_start", s.profile_start, at_least(0), "first profiled step");
    v("profile_steps", s.profile_steps, at_least(1), "profiled steps");
    v("deterministic", s.deterministic, anything, "the same bits in every run, at some cost");
    v("on_nonfinite", s.on_nonfinite, anything,
      "a loss or gradient that is no number: stop, or skip the step");
    v("nonfinite_limit", s.nonfinite_limit, at_least(1),
      "skipped steps in a row that end a run with ON_NONFINITE=skip");
    v("comm_timeout_s", s.comm_timeout_s, above(0), "seconds before a silent rank is given up");
    v("checkpoint_every", s.checkpoint_every, at_least(0),
      "steps, or minutes of training time (5m), between checkpoints; 0: none");
    v("keep", s.keep, at_least(1), "checkpoints kept, the newest");
    v("resume", s.resume, anything,
      "auto: from OUTPUT_DIR's newest valid checkpoint, if any; never; or a checkpoint's folder");
    v("artifact", s.artifact, anything, "quantised file written at the end");
    v("record_quirks", s.record_quirks, anything,
      "repeat the Python scripts' own mistakes, for comparison");
    v("tensorboard", s.tensorboard, anything,
      "also write the scalars of metrics.jsonl for TensorBoard, in OUTPUT_DIR/tensorboard");
  }
};

}  // namespace tg
