"""tests/bench/repeat_report.py on runs of which one differs."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "bench" / "repeat_report.py"


class RepeatReport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="repeat-report-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_of(self, name, losses, tensors):
        """A run's folder, with the tensors of bytes of two ranks."""
        checkpoint = self.folder / name / "checkpoints" / "step-00000001"
        checkpoint.mkdir(parents=True)
        events = [{"event": "train", "step": step, "train_loss": loss, "grad_norm": 1.5}
                  for step, loss in enumerate(losses, 1)]
        lines = [json.dumps(event) for event in [{"event": "run"}, *events]]
        (self.folder / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        for rank, (tensor, data) in enumerate(tensors.items()):
            header = json.dumps({tensor: {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
            (checkpoint / f"rank-{rank:05}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)

    def report(self):
        done = subprocess.run([sys.executable, SCRIPT, self.folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_runs_of_the_same_bits_are_called_so(self):
        for name in "123":
            self.run_of(name, [11.5, 11.25], {"parameter.a": b"12", "optimizer.momentum.a.0": b"34",
                                              "clock.elapsed_ms": name.encode()})
        status, lines = self.report()
        self.assertEqual((status, lines[-1]), (0, "the same bits: train_loss AAA AAA; grad_norm AAA AAA; "
                                                  "0 of 2 tensors differ after step 1"))

    def test_a_run_that_differs_is_told_by_step_and_by_tensor(self):
        for name, loss, a in (("1", 11.25, b"12"), ("2", 11.25, b"12"), ("3", 11.2500001, b"13")):
            self.run_of(name, [11.5, loss], {"parameter.a": a, "optimizer.momentum.a.0": b"34"})
        status, lines = self.report()
        self.assertEqual((status, lines[-1]), (1, "DIFFERENT: train_loss AAA AAB; grad_norm AAA AAA; "
                                                  "1 of 2 tensors differ after step 1"))
        self.assertIn("after step 1: AAB    1 of parameter: parameter.a", lines)
        self.assertIn("after step 1: AAA    1 of optimizer.momentum", lines)

    def test_other_tensors_alone_are_a_difference(self):
        self.run_of("1", [11.5], {"parameter.a": b"12"})
        self.run_of("2", [11.5], {"parameter.a": b"13"})
        self.assertEqual(self.report()[0], 1)

    def test_a_run_without_a_checkpoint_is_no_success(self):
        self.run_of("1", [11.5], {"parameter.a": b"12"})
        (self.folder / "2").mkdir()
        self.assertEqual(self.report(), (1, ["1 of 2 runs have losses, 1 checkpoints"]))


if __name__ == "__main__":
    unittest.main()
