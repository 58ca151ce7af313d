"""A run that was killed or stopped continues bit by bit when the same command starts again."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from harness import (TEXT, TOKENIZER, TWO_LAYERS, RunTest, end, licences_shards, read_events, read_until, saved_line,
                     train_losses)

BAD_DATA, MISSING, STOPPED, CONFIG = 65, 66, 75, 78
# Every kind of state: three averages, late quantization, two warm-downs of Muon's momentum.
RICH = dict(ITERATIONS=12, WARMDOWN_ITERS=8, CHECKPOINT_EVERY=3, EMA_ENABLED=1, LAWA_ENABLED=1, LAWA_FREQ=2,
            LAWA_K=2, SWA_EVERY=2, LATE_QAT_THRESHOLD=0.4, MTP_NUM_HEADS=1, VAL_LOSS_EVERY=4)
SHORT = 6000  # tokens per shard, so that a shard ends during the run
LONG_EVALUATION = dict(EVAL_STRIDE=1, VAL_TOKENS=4096, VAL_BATCH_SIZE=4096)  # long enough for a signal to arrive


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").glob("step-*"))


def results(events):
    """Returns what must not depend on interruptions: losses of steps and validations, and the scores."""
    kept = []
    for event in events:
        if event["event"] in ("train", "val", "final"):
            kept.append({name: value for name, value in event.items() if not name.endswith("_ms")})
    return kept


class ResumeTest(RunTest):
    small = TWO_LAYERS

    def kill_after(self, line, signal_number=signal.SIGKILL, to=None, saved=None, **settings):
        """Starts a run and sends it a signal when it has printed that line and saved that step; returns the finished
        process."""
        with self.start_gpt(**settings) as process:
            try:
                read_until(process, line, *([] if saved is None else [saved_line(self.out, saved)]))
                os.kill(process.pid if to is None else to(), signal_number)
                output, errors = process.communicate(timeout=60)
            finally:
                end(process)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def whole(self, output="whole"):
        """Returns the events of a run of RICH, trained once, with every checkpoint kept; its files are in that
        folder."""
        first = self.folder / "whole"
        if not first.exists():
            self.train(output=first.name, KEEP=9, **RICH)
        self.out = first if output == first.name else shutil.copytree(first, self.folder / output)
        return read_events(first)

    def killed(self, output):
        """Copies a run of RICH that was killed after step 8, which is trained once, to that folder."""
        first = self.folder / "killed-behind-step-8"
        if not first.exists():
            self.kill_after("step:8/", saved=6, output=first.name, **RICH)
        self.out = shutil.copytree(first, self.folder / output)

    def error_of(self, done, exit_code):
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        return errors[0]


def contents(folder):
    """Returns {file: hash of its bytes} of a run, except its lock, which names the last process."""
    return {path: hash(path.read_bytes()) for path in folder.rglob("*") if path.is_file() and path.name != "run.lock"}


def edit_manifests(folder, change):
    """Calls change(manifest) for each checkpoint of a run and writes the result."""
    for path in (folder / "checkpoints").glob("step-*/manifest.json"):
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))


class OneRankTest(ResumeTest):
    def test_kills_on_both_sides_of_a_change_of_the_batches_leave_no_trace(self):
        # Strided positions depend on the earlier size of micro-batches; in the documents order a shard ends during
        # the run.
        for order, batches in (("strided", dict(TRAIN_BATCH_TOKENS="512,1024@5,768@0.8", TRAIN_SEQ_LEN="16,32@5")),
                               ("documents", dict(TRAIN_BATCH_TOKENS="768,1024@5,512@0.8",
                                                   DATA_PATH=licences_shards(SHORT)))):
            with self.subTest(order):
                schedule = dict(RICH, LOADER_ORDER=order, **batches)
                whole = self.train(output=f"whole-{order}", **schedule)
                if order == "documents":
                    self.assertGreater(max(event.get("token_offset", 0) for event in whole), SHORT)
                model = (self.out / "final_model.safetensors").read_bytes()
                for step, saved in ((4, 3), (8, 6)):
                    done = self.kill_after(f"step:{step}/", saved=saved, output=f"killed-{order}", **schedule)
                    self.assertEqual(done.returncode, -signal.SIGKILL)
                self.assertEqual(results(self.train(output=f"killed-{order}", **schedule)), results(whole))
                self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)

    def test_the_token_that_begins_documents_is_the_tokenizers_and_stays(self):
        documents = dict(LOADER_ORDER="documents", ITERATIONS=2, VAL_LOSS_EVERY=0, CHECKPOINT_EVERY=1)
        self.train(output="bos", **documents)
        self.assertEqual(json.loads((self.out / "config.json").read_text())["settings"]["BOS_ID"], 1)
        self.fails(CONFIG, "BOS_ID=1, now 7", output="bos", **dict(documents, ITERATIONS=4, BOS_ID=7))
        self.train(output="bos", **dict(documents, ITERATIONS=4, BOS_ID=1))
        self.assertEqual([event["step"] for event in read_events(self.out) if event["event"] == "resume"], [2])

    def test_three_kills_leave_no_trace_in_losses_and_model(self):
        whole = self.whole()
        model = (self.out / "final_model.safetensors").read_bytes()
        for step, saved in ((4, 3), (7, 6), (11, 9)):
            done = self.kill_after(f"step:{step}/", saved=saved, output="killed", **RICH)
            self.assertEqual(done.returncode, -signal.SIGKILL)
        events = self.train(output="killed", **RICH)
        self.assertEqual(results(events), results(whole))
        self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)
        resumes = [event["step"] for event in events if event["event"] == "resume"]
        self.assertEqual(resumes, sorted(resumes))
        self.assertEqual(len(resumes), 3)
        steps = [event["step"] for event in events if event["event"] in ("train", "resume")]
        for resume in resumes:
            at = [i for i, event in enumerate(events) if event["event"] == "resume" and event["step"] == resume]
            after = [event["step"] for event in events[at[-1]:] if event["event"] == "train"]
            self.assertEqual(after[0], resume + 1)
        self.assertEqual(sorted(set(steps)), list(range(1, 13)))
        self.assertEqual(checkpoints(self.out), ["step-00000009", "step-00000012"])
        log = (self.out / "log.txt").read_text()
        self.assertEqual(log.count("resume:step:"), 3)
        self.assertEqual(log.count("step:1/12 train_loss:"), 1)

    def test_a_kill_between_two_updates_by_adamw_leaves_no_trace(self):
        for dtype in ("fp32", "fp16"):
            with self.subTest(dtype):
                settings = dict(RICH, ADAM_EVERY=2, NORMUON=1, CAUTIOUS_WD=1, MUON_MOMENTUM_COOLDOWN_STEPS=4,
                                COMPUTE_DTYPE=dtype)
                whole = self.train(output=f"whole-sums-{dtype}", **settings)
                model = (self.out / "final_model.safetensors").read_bytes()
                done = self.kill_after("step:4/", saved=3, output=f"killed-sums-{dtype}", **settings)
                self.assertEqual(done.returncode, -signal.SIGKILL)
                events = self.train(output=f"killed-sums-{dtype}", **settings)
                self.assertEqual([event["step"] for event in events if event["event"] == "resume"], [3])
                self.assertEqual(results(events), results(whole))
                self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)

    def test_a_signal_stops_it_with_its_state_saved_also_without_checkpoints(self):
        settings = dict(RICH, CHECKPOINT_EVERY=0)
        whole = self.whole()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(signal=number.name):
                output = number.name
                error = self.error_of(self.kill_after("step:1/", number, output=output, **settings), STOPPED)
                self.assertRegex(error, rf"^ERROR exit=75 rank=0 step=\d+: stopped by {number.name} after step \d+, "
                                        r"state saved in \S+/checkpoints/step-\d{8}; start the same command again")
                step, text = re.fullmatch(r"ERROR exit=75 rank=0 step=(\d+): (.*)", error.rstrip()).groups()
                self.assertEqual(read_events(self.out)[-1], {"event": "exit", "code": STOPPED, "step": int(step), "text": text})
                events = self.train(output=output, **settings)
                self.assertEqual(results(events), results(whole))
                self.assertEqual([event["code"] for event in events if event["event"] == "exit"], [0])

    def test_a_second_signal_ends_it_at_once(self):
        with self.start_gpt(output="twice", **dict(RICH, ITERATIONS=1000000)) as process:
            read_until(process, "step:1/")
            # Both signals are pending when it continues, so that no step ends between them; the second one to be
            # handled ends it.
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
                process.send_signal(number)
            process.communicate(timeout=60)
            self.assertIn(process.returncode, (128 + signal.SIGTERM, 128 + signal.SIGINT))

    def test_a_signal_during_the_final_evaluations_repeats_only_those(self):
        settings = dict(RICH, **LONG_EVALUATION)
        whole = self.train(output="evaluated", **dict(settings, EVAL_STRIDE=0))
        for every in (0, 3):
            with self.subTest(every=every):
                output = f"evaluations{every}"
                done = self.kill_after("Serialized model:", signal.SIGTERM, output=output,
                                       **dict(settings, CHECKPOINT_EVERY=every))
                self.assertIn("step=12: stopped by SIGTERM after step 12, state saved", self.error_of(done, STOPPED))
                self.assertEqual([read_events(self.out)[-1][name] for name in ("event", "code", "step")], ["exit", STOPPED, 12])
                events = self.train(output=output, **dict(settings, EVAL_STRIDE=0))
                self.assertEqual([event["step"] for event in events if event["event"] == "resume"], [12])
                self.assertEqual(results(events), results(whole))

    def test_a_finished_run_says_so(self):
        self.whole("finished")
        before = {path.name: path.stat().st_mtime_ns for path in self.out.iterdir()}
        done = self.run_gpt(output="finished", **RICH)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("finished: step 12 of 12 was its last", done.stdout)
        after = {path.name: path.stat().st_mtime_ns for path in self.out.iterdir()}
        self.assertEqual(after, before)

    def test_a_finished_run_goes_on_when_it_is_made_longer(self):
        whole = self.train(output="longer-whole", **dict(RICH, ITERATIONS=15, SCHEDULE_ITERATIONS=12))
        self.whole("longer")
        self.fails(CONFIG, "SCHEDULE_ITERATIONS=12, now 15", output="longer",
                   **dict(RICH, ITERATIONS=15, SCHEDULE_ITERATIONS=15))
        # It keeps its schedule and the schedule's final learning rate.
        events = self.train(output="longer", **dict(RICH, ITERATIONS=15))
        self.assertEqual(train_losses(events), train_losses(whole))
        scales = [event["lr_scale"] for event in events if event["event"] == "train"]
        self.assertEqual(scales[11:], [1 / RICH["WARMDOWN_ITERS"]] * 4)
        self.assertEqual(json.loads((self.out / "config.json").read_text())["settings"]["SCHEDULE_ITERATIONS"], 12)

    def test_a_damaged_checkpoint_is_skipped_with_its_fault(self):
        whole = self.whole()
        faults = {
            "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
            "changed": lambda path: path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:]),
            "gone": lambda path: path.unlink(),
        }
        for fault, damage in faults.items():
            with self.subTest(fault=fault):
                self.killed(fault)
                damage(self.out / "checkpoints" / checkpoints(self.out)[-1] / "rank-00000.safetensors")
                events = self.train(output=fault, **RICH)
                self.assertEqual(results(events), results(whole))
                skipped = [line for line in self.warnings if "is skipped" in line]
                self.assertEqual(len(skipped), 1, self.warnings)
                self.assertIn("rank-00000.safetensors", skipped[0])

    def test_resume_never_begins_anew_and_keeps_what_was_there(self):
        self.killed("anew")
        before = checkpoints(self.out)
        events = self.train(output="anew", RESUME="never", **RICH)
        self.assertFalse([event for event in events if event["event"] == "resume"])
        self.assertEqual(len(train_losses(events)), 12)
        # Also a run without steps, whose only checkpoint is saved for the evaluations.
        self.train(output="anew", RESUME="never", **dict(RICH, ITERATIONS=0))
        saved = {path.name: sorted(step.name for step in path.glob("step-*"))
                 for path in self.out.iterdir() if path.name.startswith("checkpoints")}
        self.assertEqual(saved, {"checkpoints": ["step-00000000"],
                                 "checkpoints.2": ["step-00000009", "step-00000012"],
                                 "checkpoints.1": before})

    def test_a_path_begins_another_run_there_or_takes_the_own_run_back(self):
        whole = self.whole("origin")
        origin = self.out
        branch = self.train(output="branch", RESUME=origin / "checkpoints" / "step-00000006", **RICH)
        self.assertEqual(train_losses(branch), train_losses(whole)[6:])
        back = self.train(output="origin", KEEP=9, RESUME=origin / "checkpoints" / "step-00000003",
                          **dict(RICH, ITERATIONS=5))
        self.assertEqual(len(train_losses(back)), 5)
        self.assertEqual(checkpoints(origin), ["step-00000003", "step-00000005"])
        # Checkpoints after step 3 are kept under another name.
        self.assertEqual(len(list((origin / "checkpoints").glob("abandoned-step-*"))), 3)

    def test_a_path_without_a_valid_checkpoint_is_an_error(self):
        self.fails(MISSING, "nowhere", output="path", RESUME="nowhere", **RICH)
        self.killed("spoiled")
        folder = self.out / "checkpoints" / checkpoints(self.out)[-1]
        (folder / "manifest.json").write_text("{")
        self.fails(BAD_DATA, "manifest.json", output="elsewhere", RESUME=folder, **RICH)

    def test_frozen_settings_must_be_the_same_and_free_ones_may_differ(self):
        self.killed("frozen")
        for name, value in dict(MATRIX_LR=0.5, SEED=1, TRAIN_BATCH_TOKENS=2048, EMA_DECAY=0.5,
                                MLP_NEGATIVE_SLOPE=0.25, LATE_QAT_THRESHOLD=0.2).items():
            with self.subTest(setting=name):
                self.fails(CONFIG, f"{name}=", f", now {value}", output="frozen", **dict(RICH, **{name: value}))
        several = self.fails(CONFIG, "SEED=1337, now 1", output="frozen", **dict(RICH, SEED=1, MATRIX_LR=0.5))
        self.assertIn("MATRIX_LR=0.025, now 0.5", several)
        # The last five have no effect here, or equal what `auto` is on a CPU.
        events = self.train(output="frozen", **dict(RICH, ITERATIONS=13, VAL_LOSS_EVERY=0, TRAIN_LOG_EVERY=5, KEEP=1,
                                                    TRAIN_PREFETCH=0, WARMUP_STEPS=0, COMM_TIMEOUT_S=60,
                                                    EMBED_LR=0.9, SWA_EVERY=5, MUON_BETA2=0.5, LATE_QAT=1,
                                                    COMPUTE_DTYPE="fp32"))
        self.assertEqual(len(train_losses(events)), 13)

    def test_auto_is_frozen_as_the_number_format_that_it_was(self):
        self.kill_after("step:8/", saved=6, output="formats", COMPUTE_DTYPE="bf16", **RICH)
        self.fails(CONFIG, "COMPUTE_DTYPE=bf16, now fp32", output="formats", COMPUTE_DTYPE="auto", **RICH)

        def as_older_programs_did(manifest):  # on a machine where auto was bf16
            manifest["settings"]["COMPUTE_DTYPE"] = "auto"
            del manifest["settings"]["training data"]

        edit_manifests(self.out, as_older_programs_did)
        before = (self.out / "metrics.jsonl").read_bytes()
        self.fails(CONFIG, "COMPUTE_DTYPE=bf16, now fp32", output="formats", COMPUTE_DTYPE="auto", **RICH)
        self.assertEqual((self.out / "metrics.jsonl").read_bytes(), before)
        events = self.train(output="formats", COMPUTE_DTYPE="bf16", **RICH)
        self.assertEqual(len([event for event in events if event["event"] == "resume"]), 1)

    def test_other_shards_or_another_tokenizer_are_refused_and_the_same_ones_elsewhere_are_not(self):
        whole = self.train(output="whole-data", **RICH)
        shards, tokenizer = self.folder / "shards.before", self.folder / "tokenizer.before"
        shutil.copytree(self.shards, shards)
        shutil.copy(TOKENIZER, tokenizer)
        settings = dict(RICH, output="data", DATA_PATH=shards, TOKENIZER_PATH=tokenizer)
        self.kill_after("step:8/", saved=6, **settings)
        before = contents(self.out)
        last = sorted(shards.glob("fineweb_train_*.bin"))[-1]
        tokens, pieces = last.read_bytes(), tokenizer.read_bytes()
        changed = [("one less", last, None), ("same size", last, tokens[:2000] + tokens[2002:2004] + tokens[2002:]),
                   ("same number of pieces", tokenizer, pieces.replace(b"copyright", b"copywrong"))]
        for change, path, content in changed:
            with self.subTest(change):
                original = path.read_bytes()
                self.assertNotEqual(content, original)
                path.write_bytes(content) if content else path.unlink()
                error = self.fails(CONFIG, "saved with other data", "digest", ", now ", **settings)
                self.assertIn("tokenizer=" if path == tokenizer else "training data=", error)
                path.write_bytes(original)
        # Nothing of the run has changed, even with RESUME=PATH, which abandons the checkpoints after it.
        first = self.out / "checkpoints" / checkpoints(self.out)[0]
        self.fails(CONFIG, "saved with other data", **dict(settings, RESUME=first, TOKENIZER_PATH=TOKENIZER,
                                                           DATA_PATH="synthetic:zipf"))
        self.assertEqual(contents(self.out), before)
        settings.update(DATA_PATH=shards.rename(self.folder / "shards.after"),
                        TOKENIZER_PATH=tokenizer.rename(self.folder / "tokenizer.after"))
        self.assertEqual(results(self.train(**settings)), results(whole))

    def test_a_text_that_has_changed_is_refused_and_one_that_was_moved_is_not(self):
        text = self.folder / "before.txt"
        words = "\n\n".join(path.read_text() for path in sorted(TEXT.iterdir()) if path.is_file()).encode()
        text.write_bytes(words)
        settings = dict(RICH, output="text", DATA_PATH=text)
        self.kill_after("step:8/", saved=6, **settings)
        text.write_bytes(words[:100] + b"x" + words[101:])
        self.fails(CONFIG, "training data=1 text files", f"{len(words)} bytes", ", now ", **settings)
        text.unlink()
        moved = self.folder / "after.txt"
        moved.write_bytes(words)
        events = self.train(**dict(settings, DATA_PATH=moved))
        self.assertEqual(len(train_losses(events)), 12)

    def test_a_checkpoint_of_an_older_program_is_resumed_with_the_same_paths(self):
        self.kill_after("step:8/", saved=6, output="older", **RICH)

        def as_older_programs_did(manifest):
            settings = manifest["settings"]
            del settings["training data"], settings["tokenizer"]
            settings.update({"COMPUTE_DTYPE": "auto", "DATA_PATH": str(self.shards), "TOKENIZER_PATH": str(TOKENIZER),
                             "EMBED_LR": "0.6", "training tokens": "7"})
            manifest["program"] = "old\x1b[2J\nERROR exit=0"

        edit_manifests(self.out, as_older_programs_did)
        self.fails(CONFIG, "training tokens=7, now ", output="older", **RICH)
        edit_manifests(self.out, lambda manifest: manifest["settings"].pop("training tokens"))
        moved = self.folder / "moved"
        moved.symlink_to(self.shards)
        self.fails(CONFIG, f"DATA_PATH={self.shards}, now {moved}", output="older", **dict(RICH, DATA_PATH=moved))
        events = self.train(output="older", **RICH)
        self.assertEqual(len(train_losses(events)), 12)
        # Text from a file, with control characters escaped for the terminal.
        self.assertIn("was saved by old\\x1b[2J\\x0aERROR exit=0, and this is ", self.warnings[0])

    def test_gradients_of_heads_in_no_optimizer_go_on_with_the_scripts_quirks(self):
        for dtype in ("fp32", "fp16"):
            with self.subTest(dtype):
                # Gradients of the warm-up stay too; the accumulated gradient soon clips all others.
                quirks = dict(RICH, RECORD_QUIRKS=1, MTP_NUM_HEADS=2, MTP_LOSS_WEIGHT=4, WARMUP_STEPS=3,
                              GRAD_CLIP_NORM=1, COMPUTE_DTYPE=dtype, TRAIN_BATCH_TOKENS=256, VAL_BATCH_SIZE=512,
                              VAL_TOKENS=512)
                whole = self.train(output=f"quirks-{dtype}", **quirks)
                norms = [event["grad_norm"] for event in whole if event["event"] == "train"]
                self.assertGreater(max(norms), 1)
                self.kill_after("step:8/", saved=6, output=f"quirks-killed-{dtype}", **quirks)
                events = self.train(output=f"quirks-killed-{dtype}", **quirks)
                self.assertEqual(results(events), results(whole))

    def test_checkpoints_by_minutes_of_training_time(self):
        # No checkpoint is due within a minute, which is long for a test; the last one is saved at the end.
        self.train(output="minutes", **dict(RICH, CHECKPOINT_EVERY="1m"))
        self.assertEqual(checkpoints(self.out), ["step-00000012"])

    def test_checkpoints_without_a_name_for_the_run_warn_that_nothing_finds_them(self):
        done = self.run_gpt(**dict(RICH, RUN_ID=None, OUTPUT_DIR=None, ITERATIONS=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("CHECKPOINT_EVERY=3 without RUN_ID or OUTPUT_DIR", done.stderr)

    def test_the_cap_counts_the_time_before_the_kill(self):
        capped = dict(RICH, ITERATIONS=1000000, MAX_WALLCLOCK_SECONDS=1, WARMDOWN_ITERS=0, CHECKPOINT_EVERY=5,
                      VAL_LOSS_EVERY=0, SWA_ENABLED=0, LATE_QAT_THRESHOLD=0)
        self.kill_after("checkpoint:", output="capped", **capped)
        events = self.train(output="capped", **capped)
        times = [event["train_time_ms"] for event in events if event["event"] == "train"]
        self.assertEqual(times, sorted(times))
        # It ends with the first step past the limit.
        self.assertLess(times[-2], 1000)
        self.assertGreaterEqual(times[-1], 1000)


if __name__ == "__main__":
    unittest.main()
