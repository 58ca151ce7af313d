#pragma once
// Use of the machine, and outputs of a run.
#include <cstdint>
#include <string>

#include "config/setting.h"
#include "config/types/values.h"

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

  static void visit(auto& s, const auto& line, const auto&) {
    line("train_prefetch", s.train_prefetch, anything, role::free,
         "read training batches ahead in a thread");
    line("train_prefetch_queue", s.train_prefetch_queue, within(1, 4096), role::free,
         "training batches kept ready");
    line("train_prefetch_workers", s.train_prefetch_workers, within(1, 256), role::free,
         "threads that read training batches");
    line("train_copy_stream", s.train_copy_stream, anything, role::free,
         "copy training batches on a separate CUDA stream");
    line("val_prefetch", s.val_prefetch, anything, role::free,
         "read validation batches ahead in a thread");
    line("val_prefetch_queue", s.val_prefetch_queue, within(1, 4096), role::free,
         "validation batches kept ready");
    line("val_copy_stream", s.val_copy_stream, anything, role::free,
         "copy validation batches on a separate CUDA stream");
    line("val_bytecount_device", s.val_bytecount_device, anything, role::free,
         "where the bytes of val_bpb are counted");
    line("val_progress_log_every", s.val_progress_log_every, at_least(0), role::free,
         "validation batches between progress lines; 0: none");
    line("training_timing_breakdown", s.training_timing_breakdown, anything, role::free.common(),
         "time the phases of a step: 1 synchronises around each, events does not");
    line("training_timing_every", s.training_timing_every, at_least(1),
         role::free.ineffective_if(s.training_timing_breakdown == TimingBreakdown::off,
                                   "has no effect without TRAINING_TIMING_BREAKDOWN"),
         "steps between lines of TRAINING_TIMING_BREAKDOWN");
  }
};

struct RuntimeConfig {
  DeviceChoice device = DeviceChoice::automatic;
  ComputeDtype compute_dtype = ComputeDtype::automatic;
  AttentionChoice attention = AttentionChoice::automatic;
  bool fused = true;
  HopperChoice hopper = HopperChoice::automatic;
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

  static void visit(auto& s, const auto& line, const auto& all) {
    const bool traces = s.profile == ProfileMode::on, saves = s.checkpoint_every.count != 0;
    line("device", s.device, anything, role::free.of_run().common(),
         "where to train; auto: the GPU where there is one");
    line("compute_dtype", s.compute_dtype, anything, role::fixed.common(),
         "dtype of activations and GEMMs; auto: bf16 on CUDA, fp32 on the CPU; fp32 means "
         "everything; fp16 scales the loss");
    line("attention", s.attention, anything, role::free.of_run(),
         "attention kernel; auto: cuDNN where it can, else flash, else math");
    line("fused", s.fused, anything, role::free,
         "this program's own CUDA kernels; 0: plain ATen everywhere");
    line("hopper", s.hopper, anything, role::free,
         "kernels for Hopper GPUs; auto: where they can run; 0: those of other GPUs; 1: required");
    line("graphs", s.graphs, anything, role::free,
         "replay forward and backward passes, validation and (one GPU) the optimizer step as CUDA "
         "graphs");
    line("pad_vocab", s.pad_vocab, anything, role::free,
         "on a GPU, compute with a vocabulary padded to a multiple of 64; 0: never");
    line("fp8", s.fp8, anything, role::fixed.of_run().common(),
         "compute these GEMMs of training in FP8, on a GPU that has it; 1: all of them");
    line("activation_recompute", s.activation_recompute, anything, role::free,
         "activations recomputed in backward to save memory: the MLP's (light), or whole blocks'");
    line("memory_limit_gb", s.memory_limit_gb, within(0, 1 << 20),
         role::free.ineffective_if(s.memory_limit_gb > 0 && s.device == DeviceChoice::cpu,
                                   "has no effect with DEVICE=cpu: it limits a GPU's memory"),
         "GPU memory to use at most, in GiB, CUDA's own included; 0: all of it");
    line("init_from", s.init_from, anything, role::free.of_run().path().common(),
         "initial weights: a run's folder, a checkpoint's, or a file; empty: drawn from SEED");
    line("weights", s.weights, anything, role::free.of_run(),
         "weights of a checkpoint in INIT_FROM: raw, as trained, or ema, the average; auto: "
         "those that its run would end with");
    line("output_dir", s.output_dir, anything, role::free.of_rank().path().common(),
         "where results go; empty: logs/RUN_ID");
    line("profile", s.profile, anything, role::free.of_rank(),
         "write a trace, or mark phases for Nsight (nvtx)");
    line("profile_start", s.profile_start, at_least(0),
         role::free.of_rank().ineffective_if(!traces, "has no effect without PROFILE=1"),
         "first profiled step");
    line("profile_steps", s.profile_steps, at_least(1),
         role::free.of_rank().ineffective_if(!traces, "has no effect without PROFILE=1"),
         "profiled steps");
    line("deterministic", s.deterministic, anything, role::free,
         "bitwise equal results in every run, at some cost");
    line("on_nonfinite", s.on_nonfinite, anything, role::free,
         "a loss or gradient that is not finite: stop, or skip the step");
    line("nonfinite_limit", s.nonfinite_limit, at_least(1), role::free,
         "consecutive skipped steps that end a run with ON_NONFINITE=skip");
    line("comm_timeout_s", s.comm_timeout_s, above(0), role::free,
         "seconds without progress before a rank counts as lost");
    line("checkpoint_every", s.checkpoint_every, at_least(0),
         role::free.common().ineffective_if(
             saves && all.data.run_id.empty() && s.output_dir.empty(),
             "without RUN_ID or OUTPUT_DIR: each start draws a RUN_ID of its "
             "own and so finds no checkpoint to resume from; set one of them"),
         "steps, or minutes of training time (5m), between checkpoints; 0: none");
    line("keep", s.keep, at_least(1),
         role::free.ineffective_if(!saves, "has no effect without CHECKPOINT_EVERY"),
         "newest checkpoints that are kept");
    line(
        "resume", s.resume, anything, role::free.path().common(),
        "auto: from OUTPUT_DIR's newest valid checkpoint, if any; never; or a checkpoint's folder");
    line("artifact", s.artifact, anything, role::free.of_run(),
         "quantised file written at the end");
    line("record_quirks", s.record_quirks, anything, role::fixed.compatibility(),
         "reproduce known bugs of the reference implementation, to compare losses with it");
    line("tensorboard", s.tensorboard, anything, role::free.of_rank(),
         "also write the scalars of metrics.jsonl for TensorBoard, in OUTPUT_DIR/tensorboard");
  }
};

}  // namespace tg
