"""The last record's recipe: recurrence begins in the middle of a run, also with interruptions and on any number of
ranks."""

import json
import re
import signal
import subprocess
import unittest

from harness import (BUILD, LAST_RECORD, SOURCE, RunTest, common_folder, read_events,
                     train_losses)
from resume_test import ResumeTest, results

USAGE, CONFIG = 64, 78
BEGINS = 6  # steps before recurrence: the first s of 12 with s/12 >= 0.5


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def whole_run(test):
    """Returns the events of an uninterrupted run of LAST_RECORD, trained once; its files are in test.out."""
    out = common_folder() / "last-record"
    if not out.exists():
        test.train(output=out, CHECKPOINT_EVERY=2)
    test.out = out
    return read_events(out)


class LastRecordTest(ResumeTest):
    small = LAST_RECORD

    def test_recurrence_begins_once_at_its_share_and_stays_through_kills_in_both_depths(self):
        whole = whole_run(self)
        lines = (self.out / "log.txt").read_text().splitlines()
        model = (self.out / "final_model.safetensors").read_bytes()
        begun, = of_kind(whole, "stage")
        self.assertEqual(begun, {"event": "stage", "step": BEGINS, "share": 0.5, "stage": 1, "title": "in recurrence",
                                 "encoder": "[0, 1, 2, 3]", "decoder": "[2, 3, 2, 3, 4]"})
        self.assertIn("layer_loop:enabled step:6 frac:0.500 encoder:[0, 1, 2, 3] decoder:[2, 3, 2, 3, 4]", lines)
        for step in (3, 5, 9):
            done = self.kill_after(f"step:{step}/", saved=step - 1, output="killed", CHECKPOINT_EVERY=2)
            self.assertEqual(done.returncode, -signal.SIGKILL)
        killed = self.train(output="killed", CHECKPOINT_EVERY=2)
        self.assertEqual(results(killed), results(whole))
        self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)
        # Four of every five FLOPs are in blocks, which are called more often with recurrence.
        flops = [event["flops_per_token"] for event in of_kind(whole, "train")]
        self.assertEqual([len(set(part)) for part in (flops[:BEGINS], flops[BEGINS:])], [1, 1])
        self.assertGreater(flops[-1], flops[0])

    def test_its_warm_up_has_both_depths_and_changes_nothing(self):
        expected = train_losses(whole_run(self))
        warming = re.compile(r"(loop_)?warmup(_step)?:")
        lines = (self.out / "log.txt").read_text().splitlines()
        self.assertEqual([line for line in lines if warming.match(line)], [])
        warm = self.train(output="warm", WARMUP_STEPS=2)
        self.assertEqual(train_losses(warm), expected)
        self.assertEqual([line for line in self.lines if warming.match(line)],
                         ["warmup_step:1/2", "warmup_step:2/2",
                          "loop_warmup:enabled encoder:[0, 1, 2, 3] decoder:[2, 3, 2, 3, 4]",
                          "loop_warmup_step: 1/2", "loop_warmup_step: 2/2"])

    def test_a_model_is_scored_and_sampled_in_the_depth_that_it_was_trained_in(self):
        run = self.train(output="depths", CHECKPOINT_EVERY=4, KEEP=9, EMA_ENABLED=0)
        by_step = {event["step"]: event["val_loss"] for event in of_kind(run, "val")}
        for step in (4, 8, 12):
            with self.subTest(step):
                done = self.run_gpt("eval", "--init-from", self.out / "checkpoints" / f"step-{step:08}", output="depths")
                self.assertEqual(done.returncode, 0, done.stderr)
                loss = float(re.search(r"val_loss:([\d.]+)", done.stdout)[1])
                self.assertAlmostEqual(loss, by_step[step], delta=1e-4)
        done = self.run_gpt("sample", "--init-from", self.out, "--prompt", "The", "--tokens", 8, output="depths")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_trace_recurs_where_its_run_did_whatever_its_lines_order_and_the_replays_length(self):
        events = self.train(output="run", VAL_LOSS_EVERY=0)
        lines = (self.out / "metrics.jsonl").read_text().splitlines()
        begun = next(i for i, line in enumerate(lines) if json.loads(line)["event"] == "stage")
        # As on a GPU, where a step's line is written while the next step runs.
        before = max(i for i in range(begun) if json.loads(lines[i])["event"] == "train")
        lines.insert(before, lines.pop(begun))
        trace = self.folder / "trace.jsonl"
        trace.write_text("\n".join(lines) + "\n")
        short = dict(ITERATIONS=8, VAL_LOSS_EVERY=0, LR_TRACE=trace)
        self.assertEqual(train_losses(self.train(output="replayed", **short)), train_losses(events)[:8])
        # A run that ended before recurrence.
        never = train_losses(self.train(output="never", **dict(short, LR_TRACE=None, ITERATIONS=5, SCHEDULE_ITERATIONS=12)))
        trace = self.out / "metrics.jsonl"
        replayed = self.train(output="again", VAL_LOSS_EVERY=0, LR_TRACE=trace, SCHEDULE_ITERATIONS=6)
        self.assertEqual(train_losses(replayed), never)
        self.assertEqual(of_kind(replayed, "stage"), [])
        for words in ("SCHEDULE_ITERATIONS=6 has no effect with LR_TRACE",
                      f'LR_TRACE={trace}: its run never came to a stage "in recurrence"'):
            self.assertTrue(any(words in line for line in self.warnings), self.warnings)

    def test_the_weights_of_lanes_in_a_file_are_left_out_of_a_model_without_lanes(self):
        # As in the weights of its script, which always contain them.
        self.train(output="lanes", ITERATIONS=1, VAL_LOSS_EVERY=0)
        weights = self.out / "final_model.safetensors"
        self.train(output="no-lanes", ITERATIONS=1, VAL_LOSS_EVERY=0, PARALLEL_START_LAYER=0, INIT_FROM=weights)
        note = "without parallel_post_lambdas, parallel_resid_lambdas"
        self.assertTrue(any(note in line for line in self.lines + self.warnings))

    def test_its_int6_artifact_scores_near_the_model(self):
        events = self.train(output="int6", ARTIFACT="int6")
        scores = {event["name"]: event["val_loss"] for event in of_kind(events, "final")}
        self.assertLess(abs(scores["final_int6_roundtrip_exact"] - scores["pre_quantization_post_ema"]), 0.05)

    def test_the_settings_say_what_excludes_what(self):
        for chosen, words in ((dict(GATED_ATTENTION=1), ("GATED_ATTENTION=1", "SPARSE_ATTN_GATE_ENABLED=1", "HEAD_GATE has one value")),
                              (dict(LOOP_END=5), ("LOOP_START=2", "LOOP_END=5", "NUM_LAYERS=5")),
                              (dict(PARALLEL_START_LAYER=5), ("PARALLEL_START_LAYER=5",)),
                              (dict(DTG_ENABLED=1), ("DTG_ENABLED=1", "PARALLEL_START_LAYER=4"))):
            with self.subTest(**chosen):
                self.fails(CONFIG, *words, **chosen)

    def test_inspect_prints_the_plan_of_a_preset(self):
        def inspect(*words):  # without the runs' settings
            return subprocess.run([BUILD / "train_gpt", "inspect", "--plan", *words], capture_output=True, text=True)

        done = inspect(SOURCE / "configs" / "record_1061.env")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("recipe last_record: 11 blocks of 512 channels\nsegments begin with a row and with a document, and "
                      "every 2048 tokens of one (DOCUMENT_ATTENTION)\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^before recurrence: 11 layer calls$")
        self.assertRegex(done.stdout, r"(?m)^in recurrence, from 0.35 of the schedule on: 17 layer calls$")
        in_recurrence = done.stdout.split("in recurrence")[1]
        rows = re.findall(r"(?m)^ *(\d+) +(\d+) +(one|two) +(-|\d+, gated) +all tokens before in its segment, exclusive$", in_recurrence)
        self.assertEqual([int(block) for _, block, *_ in rows], [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9, 10])
        self.assertEqual([lanes for *_, lanes, _ in rows].count("two"), 3)
        self.assertEqual([skip for *_, skip in rows], ["-"] * 8 + [f"{visit}, gated" for visit in range(7, -1, -1)] + ["-"])
        self.assertRegex(done.stdout, r"(?m)^all +\d+ +35945671$")
        self.assertEqual(inspect().returncode, USAGE)
        whole_rows = inspect(SOURCE / "configs" / "gpt124m.env").stdout
        self.assertRegex(whole_rows, r"(?m) all tokens before(,|$)")
        self.assertNotIn("segment", whole_rows)

    def test_inspect_prints_the_settings_that_a_preset_stands_for(self):
        def inspect(*words):
            return subprocess.run([BUILD / "train_gpt", "inspect", "--settings", *words], capture_output=True, text=True)

        preset = SOURCE / "configs" / "record_1061.env"
        done = inspect(preset, "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        # From the flag, the preset and the recipe.
        for line in ("SEED=7", "BETA2=0.99", "NUM_LOOPS=2", "LOADER_ORDER=documents", "RECIPE=last_record"):
            self.assertIn(line, done.stdout.splitlines())
        whole = self.folder / "whole.env"
        whole.write_text(done.stdout)
        self.assertEqual(inspect(whole).stdout, done.stdout)
        self.assertEqual(inspect().returncode, USAGE)


class RanksTest(RunTest):
    small = dict(LAST_RECORD, GRAD_ACCUM_STEPS=None)

    def test_losses_do_not_depend_on_the_number_of_ranks(self):
        shorter = dict(ITERATIONS=6, VAL_LOSS_EVERY=0)  # three steps without and three with recurrence
        expected = train_losses(self.train(output="one", **shorter))
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                events = self.train(output=f"ranks{ranks}", ranks=ranks, **shorter)
                for found, exact in zip(train_losses(events), expected, strict=True):
                    self.assertAlmostEqual(found, exact, delta=1e-6 * exact)

    def test_all_ranks_begin_recurrence_at_the_same_step_by_the_clock(self):
        # Steps of one micro-batch a rank, many of which fit in half of the time.
        clocked = dict(ranks=2, GRAD_ACCUM_STEPS=1, TRAIN_BATCH_TOKENS=64, MAX_WALLCLOCK_SECONDS=0.6, ITERATIONS=1000,
                       VAL_LOSS_EVERY=0, GPTQ_RESERVE_SECONDS=0)
        events = self.train(output="clock", **clocked)
        begun, = of_kind(events, "stage")
        self.assertGreaterEqual(begun["share"], 0.5)
        # The previous step ended in the first half of the time.
        before = of_kind(events, "train")[begun["step"] - 2]
        self.assertEqual(before["step"], begun["step"] - 1)
        self.assertLess(before["train_time_ms"], 300)
        # The trace replays the run without a clock.
        replayed = self.train(output="replayed", LR_TRACE=self.folder / "clock" / "metrics.jsonl", **clocked)
        self.assertEqual(train_losses(replayed), train_losses(events))
        self.assertEqual([event["step"] for event in of_kind(replayed, "stage")], [begun["step"]])


if __name__ == "__main__":
    unittest.main()
