"""Where a run's time went: the lines of the breakdown, the trace, the warnings about stalls."""

import itertools
import json
import operator
import re
import statistics
import unittest

from harness import RunTest, train_losses

PHASES = ("batch_cpu_ms", "batch_h2d_ms", "forward_ms", "backward_ms", "grad_clip_ms", "optimizer_ms", "val_ms",
          "explicit_sync_ms")
TAIL = r" \(per_optimizer_step; forward/backward/batch averaged over micro_steps; grad_accum_steps=8\)$"


def line_pattern(step, names):
    return rf"^timing_breakdown step:{step} micro_steps:8 " + " ".join(rf"{n}:\d+\.\d\d" for n in names) + TAIL


class BreakdownTest(RunTest):
    def breakdown(self, mode, **chosen):
        events = self.train(output=mode, TRAINING_TIMING_BREAKDOWN=mode, ITERATIONS=13, TRAINING_TIMING_EVERY=12,
                            GRAD_ACCUM_STEPS=None, **chosen)
        lines = [line for line in self.lines if line.startswith("timing_breakdown ")]
        steps = [int(re.search(r" step:(\d+)", line).group(1)) for line in lines]
        self.assertEqual(steps, [*range(1, 11), 12])
        self.assertIn("training_timing_breakdown:enabled log_every:12", self.lines)
        return lines, [event for event in events if event["event"] == "timing"], events

    def test_the_scripts_mode_has_their_line_and_turns_their_switches_off(self):
        lines, _, events = self.breakdown("1")
        self.assertRegex(lines[10], line_pattern(12, PHASES))
        self.assertIn("train_io:prefetch:False copy_stream:False", self.lines)
        self.assertTrue(any(line.startswith("val_io:overlap:False prefetch:False ") for line in self.lines))
        plain = self.train(output="plain", ITERATIONS=13, GRAD_ACCUM_STEPS=None)
        self.assertEqual(train_losses(events), train_losses(plain))

    def test_events_leave_the_overlap_on_and_tell_of_waiting_as_well(self):
        lines, timings, events = self.breakdown("events")
        self.assertRegex(lines[10], line_pattern(12, (*PHASES, "data_wait_ms", "comm_ms", "host_ms")))
        self.assertIn("train_io:prefetch:True copy_stream:False", self.lines)
        self.assertEqual([timing["step"] for timing in timings], list(range(1, 14)))
        # A step's phases add up to its time, and all steps to the run's time by the clock. Almost nothing happens
        # between them, unless the process loses its core.
        phases = [timing["phases_ms"] for timing in timings]
        self.assertGreaterEqual(statistics.median(map(operator.truediv, phases, (t["step_ms"] for t in timings))), 0.98)
        clock = [0, *(event["train_time_ms"] for event in events if event["event"] == "train")]
        self.assertLessEqual(sum(phases), clock[-1])
        of_clock = [phase / (after - before) for phase, (before, after) in zip(phases, itertools.pairwise(clock), strict=True)]
        self.assertGreaterEqual(statistics.median(of_clock), 0.9)
        self.assertGreater(timings[0]["val_ms"], 0)
        self.assertEqual(timings[1]["val_ms"], 0)
        self.assertEqual(timings[0]["comm_ms"], 0)


class TraceTest(RunTest):
    def trace(self, **chosen):
        self.train(PROFILE=1, PROFILE_START=3, PROFILE_STEPS=2, GRAD_ACCUM_STEPS=None, **chosen)
        return json.loads((self.out / "trace_rank0.json").read_text())["traceEvents"]

    def named(self, events, name, category):
        return [event for event in events if event.get("name") == name and event.get("cat") == category]

    def test_has_the_phases_the_workers_and_an_arrow_from_each_read_to_its_step(self):
        events = self.trace()
        self.assertEqual(len(self.named(events, "train_step", "user_annotation")), 2)
        for phase, count in (("batch", 16), ("forward", 16), ("backward", 16), ("reduce", 2), ("grad_clip", 2)):
            self.assertEqual(len(self.named(events, phase, "user_annotation")), count, phase)
        reads = self.named(events, "read", "prefetch")
        forwards = self.named(events, "forward", "user_annotation")
        self.assertTrue({e["tid"] for e in reads}.isdisjoint({e["tid"] for e in forwards}))
        arrows = {phase: {e["id"]: e for e in events if e.get("cat") == "batch" and e["ph"] == phase} for phase in "sf"}
        # Batches that were read before the trace began, or for steps after its end, have no arrows.
        self.assertGreaterEqual(len(arrows["s"]), 12)
        self.assertEqual(arrows["s"].keys(), arrows["f"].keys())
        for batch, end in arrows["f"].items():
            around = [e for e in forwards if e["ts"] <= end["ts"] <= e["ts"] + e["dur"]]
            self.assertEqual(len(around), 1, batch)
            self.assertLess(arrows["s"][batch]["ts"], end["ts"])

    def test_changes_no_loss_and_ends_with_a_run_that_ends_early(self):
        events = self.train(output="traced", PROFILE=1, PROFILE_START=5, PROFILE_STEPS=100)
        self.assertTrue((self.out / "trace_rank0.json").exists())
        self.assertEqual(train_losses(events), self.losses_of_small())

    def test_marks_for_nsight_change_no_loss_and_leave_no_trace(self):
        marked = self.train(output="marked", PROFILE="nvtx")
        self.assertFalse((self.out / "trace_rank0.json").exists())
        self.assertEqual(train_losses(marked), self.losses_of_small())

    def test_a_path_that_cannot_be_written_is_said_before_the_first_step(self):
        (self.folder / "blocked" / "trace_rank0.json").mkdir(parents=True)
        self.fails(73, "trace_rank0.json", "OUTPUT_DIR", output="blocked", PROFILE=1, PROFILE_START=1)

    def test_settings_that_make_no_sense(self):
        self.fails(78, "PROFILE_START=8", "ITERATIONS=8", PROFILE=1, PROFILE_START=8)
        self.fails(78, "PROFILE=1", "TRAINING_TIMING_BREAKDOWN=1", PROFILE=1, PROFILE_START=1,
                   TRAINING_TIMING_BREAKDOWN=1)
        self.fails(64, "TRAINING_TIMING_BREAKDOWN", "maybe", "events", TRAINING_TIMING_BREAKDOWN="maybe")
        self.fails(64, "TRAINING_TIMING_EVERY", "at least 1", TRAINING_TIMING_BREAKDOWN=1, TRAINING_TIMING_EVERY=0)


class StallTest(RunTest):
    def test_storage_that_stalls_is_a_warning_with_its_time_and_no_failure(self):
        expected = self.losses_of_small()
        shard = sorted(self.shards.glob("fineweb_train_*"))[0]
        # The twelfth read of that shard takes two seconds: after the warm-up, during training.
        slow = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-P", str(shard), "-e", "trace=pread64",
                "-e", "inject=pread64:delay_enter=2000000:when=12"]
        events = self.train(output="slow", through=slow)
        warnings = [line for line in self.warnings if "data_wait_ms" in line]
        self.assertEqual(len(warnings), 1, self.warnings)
        waited = float(re.search(r"data_wait_ms:(\d+)", warnings[0]).group(1))
        self.assertGreater(waited, 1000)
        self.assertEqual(train_losses(events), expected)


if __name__ == "__main__":
    unittest.main()
