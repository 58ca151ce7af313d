"""`train_gpt report` on real and on damaged runs: its content, and that nothing in it can become markup."""

import json
import unittest

from harness import SMALL, train_losses
from reports import ATTACK, ReportTest, start, train, write_run


def scored(loss, name="final_int8_zlib_roundtrip_exact", bpb=1.2):
    """Events of a run with this last validation."""
    return [start(), {"event": "train", "step": 1, "train_loss": 7, "lr_scale": 1.0, "train_time_ms": 1500.0},
            {"event": "val", "step": 0, "val_loss": 9}, {"event": "val", "step": 1, "val_loss": loss, "val_bpb": loss / 3},
            {"event": "final", "name": name, "val_loss": loss + 1, "val_bpb": bpb, "eval_time_ms": 2}]


class RunsTest(ReportTest):
    def test_one_run(self):
        events = self.train(output="one", TRAINING_TIMING_BREAKDOWN="events", CHECKPOINT_EVERY=4, ARTIFACT="int6")
        page = self.report("one")
        self.assertEqual(page.title, "train_gpt: test")
        run, = page.runs
        steps = [event for event in events if event["event"] == "train"]
        columns = run["train"]["columns"]
        self.assertEqual(run["train"]["rows"], 8)
        self.assertEqual(columns["step"], list(range(1, 9)))
        self.assertEqual(columns["tokens"], [SMALL["TRAIN_BATCH_TOKENS"] * step for step in range(1, 9)])
        for name, field in (("loss", "train_loss"), ("lr_scale", "lr_scale"), ("grad_norm", "grad_norm"),
                            ("ms", "train_time_ms")):
            self.assertEqual(columns[name], [event[field] for event in steps], name)
        self.assertGreater(min(columns["grad_norm"]), 0)
        timings = [event for event in events if event["event"] == "timing"]
        self.assertEqual(columns["data_wait_ms"], [event["data_wait_ms"] for event in timings])
        self.assertEqual(run["phases"]["columns"]["optimizer"], [event["optimizer_ms"] for event in timings])
        for event, forward in zip(timings, run["phases"]["columns"]["forward"]):
            self.assertAlmostEqual(forward, event["forward_ms"] * event["micro_steps"])
        validations = [event for event in events if event["event"] == "val"]
        self.assertEqual(run["val"]["columns"]["val_bpb"], [event["val_bpb"] for event in validations])
        self.assertEqual(run["val"]["columns"]["ms"], [0, columns["ms"][3], columns["ms"][7]])
        self.assertEqual([mark["step"] for mark in run["marks"] if mark["event"] == "checkpoint"], [4, 8])
        self.assertEqual(run["final"], [event for event in events if event["event"] == "final"])
        self.assertEqual((run["status"]["text"], run["exit"]), ("ended", {"event": "exit", "code": 0, "step": 8}))
        self.assertEqual(run["artifact"], [event for event in events if event["event"] == "artifact"])
        config = json.loads((self.folder / "one" / "config.json").read_text())
        for name in ("settings", "origins", "versions", "device"):
            self.assertEqual(run[name], config[name])

    def test_three_runs(self):
        rates = [0.02, 0.03, 0.04]
        losses = [train_losses(self.train(output=f"rate{i}", RUN_ID=f"rate{i}", MATRIX_LR=rate, ITERATIONS=1 + i))
                  for i, rate in enumerate(rates)]
        page = self.report("rate0", "rate1/metrics.jsonl", self.folder / "rate2")
        self.assertEqual(page.title, "train_gpt: rate0, rate1, rate2")
        self.assertEqual([run["train"]["columns"]["loss"] for run in page.runs], losses)
        self.assertEqual([run["settings"]["MATRIX_LR"] for run in page.runs], rates)
        self.assertEqual([run["name"] for run in self.report("rate0", "rate0").runs], ["rate0/metrics.jsonl"] * 2)

    def test_a_run_that_was_resumed(self):
        self.train(output="first", CHECKPOINT_EVERY=4, KEEP=9)
        self.train(output="again", RESUME=self.folder / "first" / "checkpoints" / "step-00000004")
        run, = self.report("again").runs
        self.assertEqual(run["train"]["columns"]["step"], [5, 6, 7, 8])
        self.assertEqual(run["train"]["columns"]["tokens"], [SMALL["TRAIN_BATCH_TOKENS"] * step for step in (5, 6, 7, 8)])
        self.assertEqual([mark["step"] for mark in run["marks"] if mark["event"] == "resume"], [4])

    def test_text_of_a_run_stays_text(self):
        write_run(self.folder / "attack", [start(dataset=ATTACK), train(1), dict(event="warning", kind="settings", text=ATTACK)],
                  DATA_PATH=ATTACK)
        config = self.folder / "attack" / "config.json"
        config.write_text(config.read_text().replace('"RUN_ID": "attack"', f'"RUN_ID": {json.dumps(ATTACK)}'))
        page = self.report("attack")
        self.assertEqual(page.title, f"train_gpt: {ATTACK}")
        self.assertEqual(page.runs[0]["settings"]["DATA_PATH"], ATTACK)
        text = self.file.read_text()
        self.assertNotIn("<script>alert", text)
        self.assertNotIn("\u2028", text.split('id="runs">')[1])

    def test_many_steps_are_thinned_to_what_shows(self):
        events = [start()]
        for step in range(1, 100001):
            events.append(train(step, loss=99.5 if step == 77777 else 3 + step % 1000 / 1000, grad_norm=step % 7 / 7))
        write_run(self.folder / "long", events)
        run, = self.report("long").runs
        self.assertLess(self.file.stat().st_size, 3_000_000)
        columns = run["train"]["columns"]
        self.assertEqual(run["train"]["rows"], 100000)
        self.assertEqual(columns["loss"][columns["step"].index(77777)], 99.5)
        self.assertEqual((columns["step"][0], columns["step"][-1]), (1, 100000))

    def test_operations_are_those_of_each_steps_own_rows(self):
        # Earlier versions wrote one number for all steps.
        events = [start(flops_per_token=7), train(1), train(2, flops_per_token=1000), train(3, flops_per_token=1500)]
        run, = self.report(write_run(self.folder / "rows", events)).runs
        for found, flops in zip(run["train"]["columns"]["flops_per_s"], (7, 1000, 1500), strict=True):
            self.assertAlmostEqual(found / (flops * 1024 / 0.01), 1)


class StatsTest(ReportTest):
    def stats(self, *words):
        return self.run_gpt("report", "--stats", *words)

    def groups(self):
        runs = [write_run(self.folder / f"new_{i}", scored(loss)) for i, loss in enumerate((3.278, 3.279, 3.277))]
        others = [write_run(self.folder / f"old_{i}", scored(loss, bpb=1.25)) for i, loss in enumerate((3.281, 3.282, 3.2825))]
        return runs, others

    def rows(self, done):
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        head, *lines = done.stdout.splitlines()
        return head, {line[:36].strip(): line[36:].split() for line in lines}

    def test_mean_deviation_and_p_values_of_two_groups(self):
        runs, others = self.groups()
        head, rows = self.rows(self.stats(*runs, "--against", *others, "--below", 3.28))
        self.assertIn("p < 3.28", head)
        self.assertEqual(["training seconds", "val_loss", "val_bpb", "final_int8_zlib_roundtrip_exact loss",
                          "final_int8_zlib_roundtrip_exact bpb"], list(rows))
        count, mean, deviation, least, greatest, below, *_, difference, p = rows["val_loss"]
        self.assertEqual(("3", "3.278", "0.001", "3.277", "3.279"), (count, mean, deviation, least, greatest))
        self.assertAlmostEqual(0.037, float(below), delta=0.0005)  # t = -2√3 with 2 degrees of freedom
        self.assertAlmostEqual(3.278 - 9.8455 / 3, float(difference), delta=1e-5)
        self.assertAlmostEqual(0.0085, float(p), delta=0.002)
        self.assertEqual(["-0.05", "0"], rows["final_int8_zlib_roundtrip_exact bpb"][-2:])

    def test_one_run_has_no_deviation(self):
        runs, _ = self.groups()
        _, rows = self.rows(self.stats(runs[0]))
        self.assertEqual(["1", "3.278", "-", "3.278", "3.278"], rows["val_loss"])

    def test_only_what_all_runs_have_is_compared(self):
        runs, _ = self.groups()
        other = write_run(self.folder / "other", scored(3.3, name="final_int6_roundtrip_exact"))
        _, rows = self.rows(self.stats(*runs, other))
        self.assertEqual(["training seconds", "val_loss", "val_bpb"], list(rows))

    def test_bad_input_is_one_line(self):
        runs, _ = self.groups()
        empty = write_run(self.folder / "empty", [start()])
        for code, words, said in ((64, (), "--stats: expected a RUN, found none"),
                                  (64, (runs[0], "--below", "low"), "--below: expected a number, found 'low'"),
                                  (64, (runs[0], "--out", "a.html"), "found two of them"),
                                  (66, (self.folder / "none",), "none: no such folder"),
                                  (65, (empty,), "no number that all runs have")):
            done = self.stats(*words)
            self.assertEqual((code, ""), (done.returncode, done.stdout), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(1, done.stderr.count("ERROR "))


class BadInputTest(ReportTest):
    def refuses(self, exit_code, line, *words):
        done = self.run_gpt("report", *words)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (exit_code, "", f"ERROR exit={exit_code} rank=0: {line}\n"))

    def test_usage(self):
        see = "see train_gpt report --help"
        self.refuses(64, f"train_gpt report: expected a RUN, found none; {see}", "--out", "a.html")
        self.refuses(64, f"train_gpt report: expected --out FILE or --serve [PORT], found none; {see}", "a")
        self.refuses(64, f"train_gpt report: expected RUN... --out FILE, --serve [PORT] or --stats, found '--all'; {see}", "--all", "a")

    def test_a_missing_folder(self):
        self.refuses(66, "none: no such folder (expected a run's OUTPUT_DIR, such as logs/RUN_ID)", "none", "--out", "a.html")
        (self.folder / "bare").mkdir(exist_ok=True)
        done = self.run_gpt("report", "bare", "--out", "a.html")
        self.assertEqual(done.returncode, 66, done.stderr)

    def test_a_file_that_is_no_run(self):
        event = 'expected an event, a JSON object with a string "event", found'
        for name, lines, message in (
                ("foreign", ["hello"], f':1: {event} "hello"'),
                ("broken", [start(), train(1), '{"event":"tr'], f':3: {event} "{{\\"event\\":\\"tr"'),
                ("unnamed", [start(), {"step": 1}], f':2: {event} "{{\\"step\\": 1}}"'),
                ("deep", [start(), "[" * 1000], f':2: {event} "{"[" * 60}"...'),
                ("long", ["x" * 70000], ":1: expected an event of at most 65536 bytes, found a longer line"),
                ("typed", [start(), dict(train(1), step="one")], ':2: "step": expected a count below 2^63, found "one"'),
                ("short", [start(), {"event": "val", "step": 1}], ':2: expected a field "val_loss", found none'),
                ("back", [start(), train(3), train(2)],
                 ":3: step: expected one above 3, that of the train event before, found 2"),
                ("headless", [train(1)], ':1: expected a "start" event before the first "train", found none'),
                ("empty", [], ': expected the events of a run, found no "start"')):
            write_run(self.folder / name, lines)
            self.refuses(65, f"{name}/metrics.jsonl{message}", name, "--out", "bad.html")
        self.assertFalse((self.folder / "bad.html").exists())

    def test_a_config_that_is_none(self):
        folder = write_run(self.folder / "configless", [start(), train(1)])
        for text, message in (("{", "expected JSON, found something else"),
                              ("{}", 'expected a field "settings", found none'),
                              ('{"settings": 1}', '"settings": expected an object, found 1')):
            (folder / "config.json").write_text(text)
            self.refuses(65, f"configless/config.json: {message}", "configless", "--out", "bad.html")

    def test_a_last_line_that_is_half_there_is_not_there_yet(self):
        folder = write_run(self.folder / "half", [start(), train(1), train(2)])
        text = (folder / "metrics.jsonl").read_text()
        (folder / "metrics.jsonl").write_text(text[:-5])
        run, = self.report("half").runs
        self.assertEqual(run["train"]["columns"]["step"], [1])

    def test_no_numbers_are_no_fault(self):
        events = [start(), *(train(step, loss=None if step < 3 else 4.0) for step in range(1, 5))]
        run, = self.report(write_run(self.folder / "gap", events)).runs
        self.assertEqual(run["train"]["columns"]["loss"], [None, None, 4, 4])
        run, = self.report(write_run(self.folder / "stepless", [start()])).runs
        self.assertEqual(run["train"]["rows"], 0)


if __name__ == "__main__":
    unittest.main()
