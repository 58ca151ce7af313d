"""scripts/wandb_import.py with the real wandb package, offline: what its file holds of a run."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from wandb.proto import wandb_internal_pb2

from followed_run import FollowedRunTest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "wandb_import.py"

EVENTS = [
    {"event": "start", "tokens_per_step": 1024, "world_size": 1},
    {"event": "val", "step": 0, "val_loss": 6.9, "val_bpb": 4.0},
    {"event": "timing", "step": 1, "forward_ms": 2.5},
    {"event": "train", "step": 1, "train_loss": 6.5, "lr_scale": 1.0, "grad_norm": None},
    {"event": "train", "step": 2, "train_loss": 6.25, "lr_scale": 0.5, "grad_norm": 1.5},
    {"event": "val", "step": 2, "val_loss": 6.125, "val_bpb": 3.5},
    {"event": "warning", "kind": "settings", "text": "none"},
    {"event": "memory", "peak_allocated_bytes": 1234},
    {"event": "final", "name": "final_int6_roundtrip_exact", "val_loss": 6.0, "val_bpb": 3.25},
    {"event": "exit", "code": 75, "step": 2, "text": "stopped by SIGTERM after step 2"},
]


def records(path):
    """The records of a .wandb file: LevelDB's log format behind seven bytes."""
    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (1 << 15) - at % (1 << 15) < 7:  # the rest of a block
            at += (1 << 15) - at % (1 << 15)
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


def items(records_of_kind):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in records_of_kind}


class WandbImportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="train_gpt-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "run").mkdir()
        text = "".join(json.dumps(event) + "\n" for event in EVENTS)
        (self.folder / "run" / "metrics.jsonl").write_text(text + '{"event":"tr')  # this line is still being written
        (self.folder / "run" / "config.json").write_text(json.dumps({"settings": {"RUN_ID": "named", "MATRIX_LR": 0.025}}))

    def run_script(self, *words, python=(sys.executable,)):
        return subprocess.run([*python, SCRIPT, *words], cwd=self.folder, capture_output=True, text=True, timeout=120)

    def test_a_run_is_logged_step_by_step(self):
        done = self.run_script("run")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        file, = self.folder.glob("wandb/offline-run-*/run-*.wandb")
        self.assertEqual(done.stdout, f"run: wandb sync {file.parent}\n")
        rows, config, summary, name, exit_code = [], {}, {}, None, None
        for record in records(file):
            kind = record.WhichOneof("record_type")
            if kind == "history":
                rows.append(items(record.history.item))
            elif kind == "summary":
                summary.update(items(record.summary.update))
            elif kind == "exit":
                exit_code = record.exit.exit_code
            elif kind == "run":
                name = record.run.display_name
                config.update(items(record.run.config.update))
        logged = [{key: value for key, value in row.items() if not key.startswith("_") or key == "_step"} for row in rows]
        self.assertEqual((name, exit_code), ("named", 75))
        self.assertEqual(config["MATRIX_LR"], 0.025)
        self.assertEqual(len(logged), 3)
        self.assertEqual(logged[0], {"_step": 0, "val/loss": 6.9, "val/bpb": 4.0})
        self.assertEqual({key: logged[1][key] for key in ("_step", "train/loss", "timing/forward_ms", "train/lr_scale")},
                         {"_step": 1, "train/loss": 6.5, "timing/forward_ms": 2.5, "train/lr_scale": 1.0})
        self.assertEqual(logged[2], {"_step": 2, "train/loss": 6.25, "train/lr_scale": 0.5, "train/grad_norm": 1.5,
                                     "val/loss": 6.125, "val/bpb": 3.5})
        self.assertEqual(summary["final/final_int6_roundtrip_exact/bpb"], 3.25)
        self.assertEqual(summary["memory/peak_allocated_bytes"], 1234)

    def test_without_network_it_logs_offline(self):
        (self.folder / "run" / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS[:-1]) +
                                                           json.dumps({"event": "exit", "code": 0, "step": 2, "text": ""}) + "\n")
        environment = dict(os.environ, WANDB_MODE="online", WANDB_API_KEY="0" * 40, WANDB_BASE_URL="http://127.0.0.1:9",
                           WANDB_INIT_TIMEOUT="1")
        done = subprocess.run([sys.executable, SCRIPT, "--follow", "run"], cwd=self.folder, capture_output=True, text=True,
                              timeout=120, env=environment)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^wandb_import.py: run: .*; logging offline, for wandb sync$")
        file, = self.folder.glob("wandb/offline-run-*/run-*.wandb")
        self.assertEqual(3, sum(record.WhichOneof("record_type") == "history" for record in records(file)))

    def test_several_runs_are_followed_at_once(self):
        ended = json.dumps({"event": "exit", "code": 0, "step": 2, "text": ""}) + "\n"
        (self.folder / "run" / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS[:-1]) + ended)
        shutil.copytree(self.folder / "run", self.folder / "second")
        (self.folder / "second" / "config.json").write_text(json.dumps({"settings": {"RUN_ID": "other"}}))
        done = subprocess.run([sys.executable, SCRIPT, "--follow", "--every", "0.1", "run", "second"], cwd=self.folder,
                              capture_output=True, text=True, timeout=120, env=dict(os.environ, WANDB_MODE="offline"))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual({"run", "second"}, {line.split(":")[0] for line in done.stdout.splitlines()})
        found = {}
        for file in self.folder.glob("wandb/offline-run-*/run-*.wandb"):
            kinds = [(record.WhichOneof("record_type"), record) for record in records(file)]
            name, = {record.run.display_name for kind, record in kinds if kind == "run"}
            found[name] = sum(kind == "history" for kind, _ in kinds)
        self.assertEqual({"named": 3, "other": 3}, found)

    def test_without_the_package_it_is_one_line(self):
        done = self.run_script("run", python=(sys.executable, "-S"))  # without site-packages
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertEqual(done.stderr, "wandb_import.py: the package wandb is not installed; install it with: pip install wandb\n")

    def test_a_folder_that_is_no_run_is_one_line(self):
        done = self.run_script("none")
        self.assertEqual(done.returncode, 66)
        self.assertEqual(done.stderr, "wandb_import.py: none/metrics.jsonl: no such file (expected a run's folder, such as logs/RUN_ID)\n")


class WandbFollowTest(FollowedRunTest):
    def test_a_run_is_followed_while_it_trains_through_a_stop_and_a_resume(self):
        _, printed = self.follow(sys.executable, SCRIPT, WANDB_MODE="offline")
        file, = self.folder.glob("wandb/offline-run-*/run-*.wandb")
        self.assertEqual(printed, f"{self.folder}/followed: wandb sync {file.parent}\n")
        rows, config, code = [], {}, None
        for record in records(file):
            kind = record.WhichOneof("record_type")
            if kind == "history":
                row = items(record.history.item)
                rows.append((row["_step"], row))
            elif kind == "run":
                config.update(items(record.run.config.update))
                self.assertEqual("train_gpt", record.run.host)
            elif kind == "exit":
                code = record.exit.exit_code
        self.check_rows(rows)
        self.check_shared(config, file.read_bytes())
        self.assertEqual(0, code)


if __name__ == "__main__":
    unittest.main()
