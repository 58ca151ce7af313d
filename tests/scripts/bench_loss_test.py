"""Compares two number formats over a few steps of a small model on a CPU, with a real build."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))
TOKENIZER = SOURCE / "tests" / "fixtures" / "data_bpe.model"
# A CPU without bf16 instructions takes ten times as long in bf16.
TINY = {
    "VOCAB_SIZE": "512", "MODEL_DIM": "32", "BIGRAM_VOCAB_SIZE": "64", "BIGRAM_DIM": "32", "VE_DIM": "24",
    "ROPE_DIMS": "4", "TRAIN_SEQ_LEN": "32", "VAL_TOKENS": "2048", "OMP_NUM_THREADS": "1",
}
TEXT = pathlib.Path("/usr/share/common-licenses")  # on every Debian and Ubuntu


class BenchLoss(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *arguments, repository=SOURCE):
        command = [repository / "scripts" / "bench_loss.sh", "--device", "cpu", "--preset", "quickstart", *arguments]
        environment = dict(os.environ, BUILD_DIR=BUILD, OUT=self.folder / "out", **TINY)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=250)

    def test_number_formats_side_by_side(self):
        texts = sorted(str(path) for path in TEXT.iterdir() if path.is_file() and not path.is_symlink())
        subprocess.run(
            [BUILD / "make_shards", "--tokenizer", TOKENIZER, "--out", self.folder / "shards", "--shuffle", "1",
             "--val-fraction", "0.2", "--document-separator", "blank-line", *texts],
            check=True, stdout=subprocess.DEVNULL)
        done = self.run_script("--data", self.folder / "shards", "--dtypes", "fp32 bf16 fp32:7", "--steps", "20",
                               "--batch-tokens", "512")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if "%" in line}
        self.assertEqual(["fp32", "bf16", "fp32_seed_7"], list(rows))
        self.assertEqual("+0.00%", rows["fp32"][2])
        # Half precision rounds, and after 20 steps is no further off than some percent.
        self.assertNotEqual(rows["fp32"][1:], rows["bf16"][1:])
        self.assertLess(abs(float(rows["bf16"][2].rstrip("%"))), 5)
        self.assertNotEqual(rows["fp32"][1:], rows["fp32_seed_7"][1:])
        report = self.folder / "report.html"  # what is left of the runs can be shown
        runs = [self.folder / "out" / name for name in rows]
        subprocess.run([BUILD / "train_gpt", "report", *runs, "--out", report], check=True, capture_output=True)
        self.assertIn("fp32_seed_7", report.read_text())
        picture = ElementTree.parse(self.folder / "out" / "losses.svg").getroot()
        self.assertEqual(3, len(picture.findall(".//{*}polyline")))

        quiet = self.run_script("--data", self.folder / "shards", "--dtypes", "fp32 fp32", "--steps", "3",
                                "--batch-tokens", "512", "--lr-divisor", "4")
        self.assertIn("fp32_again", quiet.stdout, quiet.stderr)
        settings = json.loads((self.folder / "out" / "fp32_again" / "config.json").read_text())["settings"]
        self.assertEqual((0.01, 0.01, 0.0125), tuple(settings[name] for name in ("MATRIX_LR", "SCALAR_LR", "TIED_EMBED_LR")))
        self.assertEqual(0, settings["LATE_QAT_THRESHOLD"])

    def test_without_shards_or_text_it_says_what_to_do(self):
        bare = self.folder / "bare"  # where the quickstart has not run
        for name in ("scripts", "configs"):
            shutil.copytree(SOURCE / name, bare / name)
        done = self.run_script("--data", self.folder / "none", "--dtypes", "fp32", repository=bare)
        self.assertEqual(1, done.returncode)
        self.assertIn("MORE_TEXT=1 scripts/quickstart.sh", done.stderr)

    def gpus_seen(self, nvidia_smi, visible):
        """With this script as nvidia-smi and CUDA_VISIBLE_DEVICES → those the scripts see, and how many the tests."""
        program = self.folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        program.chmod(0o755)
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible

        def output(folder, *command):
            return subprocess.run(command, cwd=SOURCE / folder, env=environment, capture_output=True, text=True,
                                  check=False).stdout.split()

        scripts = output(".", "bash", "-c", "source scripts/common.sh; source scripts/gpu_common.sh; visible_gpus")
        tests = output("tests/e2e", "python3", "-c", "import harness; print(harness.gpu_count())")
        return scripts, int(tests[0])

    def test_scripts_and_tests_see_the_gpus_that_a_program_sees(self):
        three = "printf 'GPU %s: NVIDIA H100 (UUID: GPU-1)\\n' 0 1 2"
        for visible, gpus in ((None, ["0", "1", "2"]), ("1", ["1"]), ("0,2", ["0", "2"]), ("", []), ("-1", [])):
            self.assertEqual((gpus, len(gpus)), self.gpus_seen(three, visible))
        # CUDA_VISIBLE_DEVICES alone makes no GPU.
        self.assertEqual(0, self.gpus_seen("exit 9", "0")[1])


if __name__ == "__main__":
    unittest.main()
