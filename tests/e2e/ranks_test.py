"""Several ranks train as one rank does, with any launcher, and only one of them logs."""

import math
import os
import pathlib
import re
import subprocess
import unittest

from harness import (BUILD, OF_RANKS, SOURCE, TOKENIZER, TORCHRUN, RunTest, end, licences_shards, mpirun, read_events,
                     train_losses)
from safetensors.numpy import load_file

TOLERANCE = 1e-5
STEPS = 4
SHORT = dict(OF_RANKS, NUM_LAYERS=2, VE_LAYERS="1", ITERATIONS=STEPS, WARMDOWN_ITERS=2, VAL_LOSS_EVERY=2)
# Short steps, many of which fit in the time.
CLOCKED = dict(ITERATIONS=1000000, MAX_WALLCLOCK_SECONDS=0.5, GRAD_ACCUM_STEPS=1, TRAIN_BATCH_TOKENS=64)
of_one = {}  # a run of SHORT on one rank, trained when first needed


class RanksTest(RunTest):
    """One rank's run for comparison, and a TMPDIR that shows files that are left behind."""

    small = SHORT

    def setUp(self):
        if not of_one:
            self.temporary = self.folder
            of_one.update(events=self.train(output="one"), weights=self.weights())
        self.temporary = self.folder / f"tmp-{self.id().rsplit('.', 1)[-1]}"
        self.temporary.mkdir()

    def start_gpt(self, *flags, **settings):
        return super().start_gpt(*flags, **{"TMPDIR": self.temporary, **settings})

    def weights(self):
        return load_file(self.out / "final_model.safetensors")

    def assert_same_losses(self, expected, events):
        self.assertEqual(len(train_losses(events)), len(train_losses(expected)))
        for step, (one, many) in enumerate(zip(train_losses(expected), train_losses(events)), start=1):
            self.assertLessEqual(abs(many - one), TOLERANCE * abs(one), f"step {step}")

    def assert_same_scores(self, expected, events):
        def scores(run):
            return [event for event in run if event["event"] in ("val", "final")]

        self.assertEqual(len(scores(expected)), len(scores(events)))
        for one, many in zip(scores(expected), scores(events)):
            self.assertEqual(one.get("step"), many.get("step"))
            for name in ("val_loss", "val_bpb"):
                self.assertAlmostEqual(one[name], many[name], delta=TOLERANCE * one[name])

    def assert_same_weights(self, expected, weights):
        self.assertEqual(expected.keys(), weights.keys())
        for name, one in expected.items():
            self.assertLessEqual(abs(one - weights[name]).max(initial=0), TOLERANCE, name)

    def assert_nothing_left(self):
        rooms = [path for path in self.temporary.glob("train_gpt-*") if path.is_dir()]
        self.assertEqual([str(path) for room in rooms for path in room.iterdir()], [])


class WorldSizeTest(RanksTest):
    @staticmethod
    def offsets(events):
        return [event["token_offset"] for event in events if event["event"] == "train"]

    def train_as_one(self, ranks, expected, weights, launched=False, **settings):
        """Runs this many ranks, which read one rank's tokens and have its losses, scores and weights; returns their
        events. `launched`: by mpirun."""
        start = dict(through=mpirun(ranks)) if launched else dict(ranks=ranks)
        events = self.train(output=f"np{ranks}", **start, **settings)
        self.assertEqual(self.offsets(events), self.offsets(expected))
        self.assert_same_losses(expected, events)
        self.assert_same_scores(expected, events)
        self.assert_same_weights(weights, self.weights())
        self.assertIn(f"world_size:{ranks} grad_accum_steps:{-(-8 // ranks)}", self.lines)
        self.assertIn(f"micro_batches:8 tokens_per_step:{settings.get('TRAIN_BATCH_TOKENS', 1024)}", self.lines)
        self.assert_nothing_left()
        return events

    def test_any_number_of_ranks_reads_the_tokens_of_one_and_gives_its_losses_scores_and_weights(self):
        # Each of the 8 micro-batches of a step reads one token more than it trains on.
        self.assertEqual(self.offsets(of_one["events"]), [(1024 + 8) * step for step in range(1, STEPS + 1)])
        for ranks in (1, 8):
            with self.subTest(ranks=ranks):
                self.train_as_one(ranks, of_one["events"], of_one["weights"], launched=ranks == 1)

    def test_so_do_they_with_every_switch(self):
        for ranks, chosen in (
            # Three ranks cannot divide four layers.
            (3, dict(NUM_LAYERS=4, VE_LAYERS="2,3", GRAD_CLIP_NORM=0.05, EMA_DECAY=0.9)),
            # Adam turns gradients that are as small as its eps, and so are rounding errors, into whole steps. The
            # first block's lambdas never get a gradient.
            (4, dict(GRAD_CLIP_NORM=0, VALUE_RESIDUAL=1, EMA_ENABLED=0, ADAM_EPS=1e-4)),
            (5, dict(MTP_NUM_HEADS=1, TIE_EMBEDDINGS=0, ADAM_EPS=1e-4, LAWA_ENABLED=1, LAWA_FREQ=2, LAWA_K=2)),
        ):
            with self.subTest(ranks=ranks, **chosen):
                expected = self.train(output=f"switch{ranks}", **chosen)
                self.train_as_one(ranks, expected, self.weights(), **chosen)

    def test_so_do_they_in_the_documents_order(self):
        # All steps of eight rows of 128 but the last one fit in a shard of 3,400 tokens.
        chosen = dict(LOADER_ORDER="documents", TRAIN_BATCH_TOKENS=1024, DATA_PATH=licences_shards(3400))
        expected = self.train(output="documents", **chosen)
        weights = self.weights()
        offsets = self.offsets(expected)
        passed = [after - before - (1024 + 8) for before, after in zip([0] + offsets, offsets)]
        self.assertEqual(passed[1:-1], [0] * (STEPS - 2))
        self.assertGreater(passed[-1], 0)
        trained = [event for event in expected if event["event"] == "train"]
        self.assertEqual({event["seq_len"] for event in trained}, {128})
        # Attention spans TRAIN_SEQ_LEN at most, as in the other order.
        self.assertEqual({event["flops_per_token"] for event in trained},
                         {event["flops_per_token"] for event in of_one["events"] if event["event"] == "train"})
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.train_as_one(ranks, expected, weights, **chosen)
        # The Python script's rounds have one row per rank: one rank reads one row more of the shard.
        quirks = dict(chosen, RECORD_QUIRKS=1, GRAD_CLIP_NORM=0)
        alone = self.offsets(self.train(output="rounds1", **quirks))
        self.assertEqual(alone[:-1], offsets[:-1])
        self.assertLess(alone[-1], offsets[-1])

    def test_so_do_they_while_they_tell_the_time_in_collectives(self):
        events = self.train_as_one(2, of_one["events"], of_one["weights"], launched=True, TRAINING_TIMING_BREAKDOWN="events")
        timings = [event for event in events if event["event"] == "timing"]
        self.assertEqual(len(timings), STEPS)
        for timing in timings:
            self.assertGreater(timing["comm_ms"], 0)
            self.assertLessEqual(timing["comm_ms"], timing["step_ms"])

    def test_what_depends_on_the_number_of_ranks_learns_all_the_same(self):
        for number, chosen in enumerate((
            dict(LOADER_ORDER="strided", COMPUTE_DTYPE="bf16"),
            dict(RECORD_QUIRKS=1, MTP_NUM_HEADS=1, GRAD_ACCUM_STEPS=2, TRAIN_BATCH_TOKENS=1152),
        )):
            with self.subTest(chosen):
                losses = train_losses(self.train(output=f"other{number}", ranks=3, **{
                    # Whole sequences for three ranks in any order.
                    "TRAIN_BATCH_TOKENS": 1536, "VAL_BATCH_SIZE": 1536, "VAL_TOKENS": 1536, **chosen}))
                self.assertTrue(all(math.isfinite(loss) for loss in losses), losses)
                self.assertLess(losses[-1], losses[0])

    def test_a_strided_step_is_the_micro_batches_that_its_ranks_read(self):
        # Until a shard ends, ranks that read alternately read the same tokens as one rank.
        for ranks, micro_batches in ((3, 9), (5, 10)):
            with self.subTest(ranks=ranks):
                chosen = dict(LOADER_ORDER="strided", VAL_BATCH_SIZE=1920, VAL_TOKENS=1920, ITERATIONS=3,
                              ADAM_EPS=1e-4)
                one = self.train(output=f"in-turn{ranks}", GRAD_ACCUM_STEPS=micro_batches,
                                 TRAIN_BATCH_TOKENS=128 * micro_batches, **chosen)
                weights = self.weights()
                events = self.train(output=f"strided{ranks}", ranks=ranks, **chosen)
                self.assert_same_losses(one, events)
                self.assert_same_scores(one, events)
                self.assert_same_weights(weights, self.weights())
                self.assertIn(f"micro_batches:{micro_batches} tokens_per_step:{128 * micro_batches}", self.lines)

    def test_the_clock_of_rank_0_stops_all_ranks_at_the_same_step(self):
        process = self.start_gpt(through=mpirun(2), VAL_LOSS_EVERY=0, **CLOCKED)
        with process:
            try:
                while not (line := process.stdout.readline()).startswith("step:1/"):
                    self.assertNotEqual(line, "", "the run ended early")
                # The store's file is unlinked after all ranks have joined.
                room = self.temporary / f"train_gpt-{os.geteuid()}"
                self.assertEqual(room.stat().st_mode & 0o777, 0o700)
                self.assert_nothing_left()
                output, errors = process.communicate(timeout=60)
            finally:
                end(process)
        self.assertEqual(process.returncode, 0, errors)
        events = read_events(self.out)
        last = [event for event in events if event["event"] == "val"][-1]["step"]
        self.assertEqual(len(train_losses(events)), last)
        stops = [line for line in output.splitlines() if line.startswith("stopping_early: wallclock_cap train_time:")]
        self.assertEqual(len(stops), 1)
        self.assertTrue((self.out / "final_model.safetensors").exists())
        self.assert_ends_with_the_first_step_past(500, events)

    def test_what_the_clock_decides_begins_at_the_first_step_that_it_applies_to(self):
        threshold = 0.6
        events = self.train(through=mpirun(2), VAL_LOSS_EVERY=0, WARMDOWN_ITERS=20, LATE_QAT_THRESHOLD=threshold,
                            EMA_ENABLED=0, SWA_EVERY=1, **CLOCKED)
        self.assert_ends_with_the_first_step_past(500, events)
        scales = {event["step"]: event["lr_scale"] for event in events if event["event"] == "train"}
        # The log line counts steps from 0, the metrics from 1.
        first = min(step for step, scale in scales.items() if scale < threshold)
        self.assertIn(f"late_qat:enabled step:{first - 1} scale:{scales[first]:.4f}", self.lines)
        first = min(step for step, scale in scales.items() if scale < 0.2)
        self.assertIn(f"swa:start step:{first}", self.lines)

    def assert_ends_with_the_first_step_past(self, cap_ms, events):
        times = [event["train_time_ms"] for event in events if event["event"] == "train"]
        self.assertGreaterEqual(times[-1], cap_ms)
        self.assertLess(times[-2], cap_ms)


class OutputTest(RanksTest):
    def test_one_rank_speaks_for_all_and_writes_one_folder(self):
        before = set(self.folder.iterdir())
        done = self.run_gpt(through=mpirun(2), ITERATIONS=3, OUTPUT_DIR=None, RUN_ID=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        self.assertNotIn("\r", done.stdout)
        lines = done.stdout.splitlines()
        steps = [match.group(1) for match in map(re.compile(r"^step:(\d+)/3 train_loss:").match, lines) if match]
        self.assertEqual(steps, [str(step) for step in range(1, 4)])
        self.assertEqual(sum(line.startswith("model_params:") for line in lines), 1)
        self.assertEqual(done.stderr, "")
        self.assertEqual(set(self.folder.iterdir()) - before, {self.folder / "logs"})
        folders = [path for path in (self.folder / "logs").iterdir() if path.is_dir()]
        self.assertEqual(len(folders), 1)
        self.assertEqual(sorted(path.name for path in folders[0].iterdir()),
                         ["config.json", "final_model.pt", "final_model.pt.record.json", "final_model.safetensors",
                          "log.txt", "metrics.jsonl"])
        log = (folders[0] / "log.txt").read_text().splitlines()
        self.assertTrue(lines[0].startswith("ranks:2 "), lines[0])
        self.assertEqual(log[-len(lines):], lines)
        self.assert_nothing_left()


class LauncherTest(RanksTest):
    def train_by_hand(self, *of_each, **settings):
        """Starts a process with the variables of each rank; returns rank 0's events and expects no output from the
        others."""
        processes = [self.start_gpt(output="by-hand", **settings, **variables) for variables in of_each]
        try:
            for rank, process in enumerate(processes):
                output, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, errors)
                if rank > 0:
                    self.assertEqual(output, "")
        finally:
            for process in processes:
                end(process)
        return read_events(self.out)

    def assert_trained_as_alone(self, events):
        self.assert_same_losses(of_one["events"], events)
        self.assert_same_scores(of_one["events"], events)

    @unittest.skipUnless(TORCHRUN.exists(), "no torchrun: scripts/setup.sh --tests installs it")
    def test_torchrun_also_when_it_starts_all_ranks_again_after_one_died(self):
        # The first attempt runs until it is killed. $BASHPID, because torchrun reads $$ as an escaped $.
        first_dies = ('if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then export ITERATIONS=1000000; fi; '
                      'if [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 10 ]; then rank=$BASHPID; (until grep -qs train_loss '
                      '"$OUTPUT_DIR/log.txt"; do sleep 0.05; done; kill -9 $rank) & fi; exec "$0" "$@"')
        events = self.train(output="again",
                            through=[TORCHRUN, "--no-python", "--nproc-per-node", "2", "--max-restarts", "1",
                                     "--standalone", "bash", "-c", first_dies])
        self.assert_trained_as_alone(events)
        joined = re.compile(r"ranks:2 by:env meeting:tcp \S+:\d+ collectives:gloo").fullmatch
        self.assertEqual(sum(joined(line) is not None for line in self.lines), 2)
        self.assertEqual(sum(line.startswith("model_params:") for line in self.lines), 2)

    def test_variables_of_slurm(self):
        ranks = [dict(SLURM_PROCID=rank, SLURM_LOCALID=rank) for rank in (0, 1)]
        events = self.train_by_hand(*ranks, SLURM_NTASKS=2, SLURM_JOB_ID=7, SLURM_STEP_ID=0, SLURM_NNODES=1)
        self.assert_trained_as_alone(events)
        self.assert_nothing_left()

    def test_variables_of_pmi(self):
        ranks = [dict(PMI_RANK=rank, PMI_SIZE=2) for rank in (0, 1)]
        self.assert_trained_as_alone(self.train_by_hand(*ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port()))


class LaunchScriptTest(RanksTest):
    def launch(self, *arguments, **variables):
        """Runs scripts/launch.sh in the environment of this test's run; returns the finished process."""
        env = {**os.environ, "BUILD_DIR": BUILD, **variables}
        env = {name: str(value) for name, value in env.items() if value is not None}
        return subprocess.run([SOURCE / "scripts/launch.sh", *map(str, arguments)], env=env, cwd=self.folder,
                              text=True, capture_output=True, timeout=60)

    def pretend(self, name, text):
        path = self.temporary / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
        return path

    def asked_of_mpirun(self, gpus, *arguments, **variables):
        """Returns the command that mpirun would get on a machine with these GPUs."""
        self.pretend("train_gpt", f"echo 'GPUs {gpus}'")
        self.pretend("mpirun", 'echo "$*"')
        return self.launch(*arguments, BUILD_DIR=self.temporary, PATH=f"{self.temporary}:{os.environ['PATH']}",
                           **variables)

    def test_trains_on_the_cpus(self):
        settings = dict(SHORT, DATA_PATH=self.shards, TOKENIZER_PATH=TOKENIZER)
        preset = self.folder / "small.env"
        preset.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value is not None))
        done = self.launch("-n", 2, "--config", preset, "--output-dir", self.folder / "launched", OMP_NUM_THREADS=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("world_size:2 grad_accum_steps:4", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^threads:\d+ of \d+ cores, 2 ranks on this machine$")
        self.assert_same_losses(of_one["events"], read_events(self.folder / "launched"))

    def test_ends_with_the_exit_code_and_the_one_line_of_a_rank(self):
        done = self.launch("-n", 2, "--matrix-lrr", 1)
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertIn("--matrix-lr", done.stderr)

    def test_starts_a_rank_on_each_gpu_or_as_many_as_asked_for_on_cpus(self):
        done = self.asked_of_mpirun("NVIDIA H200, NVIDIA H200", "--seed", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"-np 2 {self.temporary}/train_gpt --seed 5\n$")
        self.assertIn("-np 1 ", self.asked_of_mpirun("NVIDIA H200, NVIDIA H200", "-n", 1).stdout)
        self.assertIn("-np 1 ", self.asked_of_mpirun("none").stdout)
        for gpus, variables in (("none", {}), ("NVIDIA H200, NVIDIA H200", dict(DEVICE="cpu"))):
            self.assertRegex(self.asked_of_mpirun(gpus, "-n", 3, **variables).stdout, r"--bind-to none .*-np 3 ")

    def test_says_what_is_missing(self):
        done = self.asked_of_mpirun("NVIDIA H200", "-n", 2)
        self.assertEqual(done.returncode, 64)
        self.assertIn("2 ranks need 2 GPUs, and there is 1", done.stderr)
        for wrong in ("0", "two", "-3", ""):
            done = self.launch("-n", wrong)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(f'"{wrong}"', done.stderr)
        nothing = self.temporary / "nothing"
        done = self.launch(BUILD_DIR=nothing)
        self.assertEqual(done.returncode, 66)
        self.assertIn(f"no {nothing}/train_gpt: run scripts/build.sh", done.stderr)
        tools = self.temporary / "tools"
        tools.mkdir()
        for tool in ("bash", "dirname", "basename", "sed", "env"):
            (tools / tool).symlink_to(pathlib.Path("/usr/bin") / tool)
        done = self.launch(PATH=tools)
        self.assertEqual(done.returncode, 66)
        self.assertIn("no mpirun: run scripts/setup.sh", done.stderr)


if __name__ == "__main__":
    unittest.main()
