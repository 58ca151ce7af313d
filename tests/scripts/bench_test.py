"""scripts/bench.sh with a real build on a CPU."""
import contextlib
import io
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("e2e", "bench")]
import bench_table  # noqa: E402
import machine  # noqa: E402
import preloaded  # noqa: E402
from harness import BUILD, PROGRAM, SOURCE, TOKENIZER, gpu_count  # noqa: E402

# A CPU without bf16 instructions takes ten times as long in bf16.
TINY = {
    "VOCAB_SIZE": "512", "MODEL_DIM": "32", "BIGRAM_VOCAB_SIZE": "64", "BIGRAM_DIM": "32", "VE_DIM": "24",
    "ROPE_DIMS": "4", "TRAIN_SEQ_LEN": "32", "VAL_TOKENS": "2048",
}
TEXT = pathlib.Path("/usr/share/common-licenses")  # on every Debian and Ubuntu


def popen_preloaded(command, *, env=None, cwd=None, popen=subprocess.Popen, **named):
    """Starts as subprocess.Popen does; train_gpt is a fork of a process that has its libraries loaded."""
    env = dict(preloaded.LOADED_WITH, **(os.environ if env is None else env))
    if str(command[0]) == str(*PROGRAM) and preloaded.can_start(env):
        return preloaded.Preloaded([BUILD / "preloaded", *command[1:]], env=env, cwd=cwd or os.getcwd(), **named)
    return popen(command, env=env, cwd=cwd, **named)


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **settings):
        """Returns that of a benchmark without a GPU."""
        no_gpu = self.folder / "nvidia-smi"
        no_gpu.write_text("#!/bin/sh\nexit 9\n")
        no_gpu.chmod(0o755)
        return dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", BUILD_DIR=str(BUILD), OUT=str(self.folder / "out"),
                    PYTHON=sys.executable, OMP_NUM_THREADS="1", **settings)

    def bench(self, *arguments, repository=SOURCE, **settings):
        """Runs scripts/bench.sh without a GPU."""
        return subprocess.run([repository / "scripts" / "bench.sh", *map(str, arguments)], env=self.environment(**settings),
                              capture_output=True, text=True, check=False, timeout=250)

    def forked_bench(self, *arguments, **settings):
        """Runs what scripts/bench.sh runs as a fork of this process, and its PyTorch peers as forks of that one, since each
        would import torch for as long as it trains. train_gpt has its libraries loaded, if possible."""
        output = self.folder / "output"

        def run():
            with open(output, "w", encoding="utf-8") as file:
                for stream in (1, 2):
                    os.dup2(file.fileno(), stream)
            if can_fork:
                subprocess.Popen = popen_preloaded
            sys.exit(bench.main([*map(str, arguments)]))

        can_fork = gpu_count() == 0
        with mock.patch.dict(os.environ, self.environment(FORKED_PEERS="1", **settings)):
            import bench
            import torch._dynamo  # noqa: F401
            process = multiprocessing.get_context("fork").Process(target=run)
            process.start()
        process.join(250)
        process.kill()
        process.join()
        return subprocess.CompletedProcess(arguments, process.exitcode, output.read_text(), "")

    def table_of(self, done):
        """Returns what a benchmark printed, and its rows as [(label, cells)]."""
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines()]
        return done.stdout, [(row[0], row[1:]) for row in rows if len(row) > 3]


class Training(BenchTest):
    def test_the_peer_repeats_the_losses(self):
        for name, presets, steps, labels in (("recurrence", "record_1061", 6, ["torch.compile", "bf16", "bf16, light"] * 2),
                                             ("stages", "speedrun_43 speedrun_91", 7, ["torch.compile", "bf16"] * 6)):
            with self.subTest(presets):
                done = self.forked_bench(name, "--presets", presets, "--steps", steps)
                printed, rows = self.table_of(done)
                found = [(label, cells[-1]) for label, cells in rows if label in labels]
                self.assertEqual(labels, [label for label, _ in found], printed)
                for label, apart in found:
                    self.assertLess(float(apart), 1e-5, f"{label}\n{printed}")
                self.assertNotEqual(0, float(found[1][1]), "the peer is another program")

    def test_joined_micro_batches_change_rounding_alone(self):
        printed, rows = self.table_of(self.forked_bench("passes", "--presets", "speedrun_43", "--steps", 7, "--variants",
                                                        "PASS_TOKENS=0|PASS_TOKENS=65536"))
        separate, joined = (float(cells[-1]) for label, cells in rows if label.startswith("PASS_TOKENS="))
        self.assertEqual(0, separate, printed)
        self.assertTrue(0 < joined < 1e-5, printed)

    def test_versions_of_equal_bits_show_it_and_a_changed_setting_shows(self):
        compared = ("versions", "--presets", "record", "--rounds", 1, "--steps", 6, "--ranks", 2, "--builds", BUILD, BUILD)
        printed, rows = self.table_of(self.forked_bench(*compared))
        self.assertEqual(["0.0e+00"] * 2, [cells[-1] for label, cells in rows if label == str(BUILD)], printed)
        printed, rows = self.table_of(self.forked_bench("generic", "--presets", "record", "--rounds", 1, "--steps", 6,
                                                        "--variants", "bf16, HOPPER=0", "--", "--eval-stride", 32))
        self.assertRegex(printed, r"(?m)^ +\d+\.\d\d s  final_sliding_window")

    def test_a_run_that_fails_is_told_and_the_others_are_measured(self):
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "train_gpt").write_text("#!/bin/sh\necho out of luck\nexit 71\n")
        (broken / "train_gpt").chmod(0o755)
        done = self.forked_bench("versions", "--presets", "record", "--rounds", 1, "--steps", 6, "--builds", broken, BUILD)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertRegex(done.stdout, r"FAIL record.0.1, exit status 71\nout of luck\n")
        self.assertRegex(done.stdout, rf"(?m)^{BUILD} +\d")

    def phases_sum(self, printed):
        """Returns the sum of the phases' percentages."""
        phases = re.findall(r"(?m)^  (?:forward|backward|grad_clip|optimizer|data_wait|comm) .* (\d+\.\d)%$", printed)
        self.assertEqual(6, len(phases), printed)
        return sum(map(float, phases))

    def test_phases_add_up_if_each_is_slow_in_another_step(self):
        ms = {"micro_steps": 2, "forward_ms": 10, "backward_ms": 20, "grad_clip_ms": 1, "optimizer_ms": 2, "data_wait_ms": 1,
              "comm_ms": 0}
        slow = ({"forward_ms": 20, "step_ms": 84}, {"backward_ms": 35, "step_ms": 94}, {"optimizer_ms": 9, "step_ms": 71})
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            bench_table.print_phases("record", [types.SimpleNamespace(phases=[{**ms, **step} for step in slow])])
        self.assertAlmostEqual(100, self.phases_sum(printed.getvalue()), delta=0.3)  # six rounded to 0.1

    def test_speed_has_a_table_phases_operations_and_a_picture(self):
        printed, rows = self.table_of(self.bench("speed", "--presets", "record", "--rounds", 1, "--steps", 7))
        found = dict(rows)
        self.assertAlmostEqual(float(found["bf16"][3]), float(found["torch.compile"][0]) / float(found["bf16"][0]), places=2)
        self.assertIn("muon of the up bank", printed)
        self.assertAlmostEqual(100, self.phases_sum(printed), delta=5)
        texts = [element.text for element in ElementTree.parse(self.folder / "out" / "speed.svg").getroot().iter()]
        self.assertIn("record, torch.compile", texts)

    def build_of(self, name, *times):
        """Returns a build folder whose op_bench prints times of rms_norm in ms."""
        folder = self.folder / name
        folder.mkdir()
        lines = "".join(f"rms_norm {ms:.3f}\\n" for ms in times)
        (folder / "op_bench").write_text(f"#!/bin/sh\nprintf '{lines}'\n")
        (folder / "op_bench").chmod(0o755)
        return folder

    def test_a_wide_time_or_ratio_stays_apart_from_its_neighbour(self):
        slow, fast = self.build_of("slow", 2.314, 1234567.891), self.build_of("fast", 0.173, 0.001)
        done = self.bench("operations", "--builds", slow, fast, "--rounds", 1)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("rms_norm")]
        self.assertEqual([["rms_norm", "2.314", "0.173", "13.376", "(13.376,", "13.376)"],
                          ["rms_norm", "1234567.891", "0.001", "1234567891.000", "(1234567891.000,", "1234567891.000)"]], rows)

    def test_operations_of_builds_are_beside_each_other(self):
        compared = ("operations", "--builds", BUILD, BUILD, "--names", "record", "--match", "rms_norm")
        done = self.bench(*compared, "--rounds", 1)
        rows = re.findall(r"(?m)^(rms_norm.*?) +([\d.]+) +([\d.]+) +([\d.]+) \(\4, \4\)$", done.stdout)
        self.assertEqual(["rms_norm", "rms_norm backward"], [row[0] for row in rows], done.stdout + done.stderr)
        for _, first, second, ratio in rows:
            self.assertAlmostEqual(float(first) / float(second), float(ratio), delta=0.001)
        done = self.bench("operations", "--builds", BUILD, self.build_of("other", 0.125), *compared[4:], "--rounds", 1)
        self.assertEqual(1, done.returncode)
        self.assertIn("the builds time different operations", done.stderr)

    def test_ranks_are_relative_to_linear(self):
        done = self.forked_bench("ranks", "--presets", "record speedrun_89", "--steps", 7)
        printed, rows = self.table_of(done)
        found = [(label, cells) for label, cells in rows if label.endswith(" ranks")]
        self.assertEqual(["1 ranks", "2 ranks"] * 2, [label for label, _ in found], printed)
        for (_, one), (_, two) in zip(found[::2], found[1::2]):
            self.assertEqual("100.00%", one[2], printed)
            self.assertAlmostEqual(float(two[2].rstrip("%")), 50 * float(two[1]), delta=0.1)
            self.assertLess(float(two[-1]), 1e-5, printed)

    def test_ranks_on_gpus_are_relative_to_the_slowest_of_them_alone(self):
        started = []

        def train(_, preset, steps, settings, build=BUILD, ranks=1, gpu=None, period=1):
            started.append((preset.stem, settings["FP8"], ranks, gpu, period))
            ms = {"0": 100, "1": 110}.get(gpu, 60 if settings["FP8"] == "1" else 55)
            return types.SimpleNamespace(steps=[ms], losses=[3.0], phases=[], memory=1, first_s=2, tokens_per_step=1, scored_s={})

        gpus = types.SimpleNamespace(gpu=True, tiny=False, train=train, settings=lambda _: {}, work=self.folder)
        options = types.SimpleNamespace(ranks=[2], variants=None, steps=12)
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="0,1"), contextlib.redirect_stdout(io.StringIO()) as printed:
            import bench
            runner = bench.Runner("ranks", bench.BENCHES["ranks"], options, gpus)
            runner.run_round("speedrun_43", 1)
            runner.print_tables()
        for fp8 in ("0", "1"):  # what is alone runs at the same time, in any order
            self.assertEqual({("speedrun_43", fp8, 1, "0", 2), ("speedrun_43", fp8, 1, "1", 2), ("speedrun_43", fp8, 2, None, 2)},
                             {run for run in started if run[1] == fp8})
        _, rows = self.table_of(types.SimpleNamespace(returncode=0, stdout=printed.getvalue(), stderr=""))
        self.assertEqual([("GPU 1 alone", "100.00%"), ("2 ranks", "100.00%"), ("GPU 1 alone", "100.00%"), ("2 ranks", "91.67%")],
                         [(label, cells[2]) for label, cells in rows if not label.startswith("speedrun_43")])
        self.assertEqual(2, printed.getvalue().count("every GPU alone, at the same time: 110.00, 100.00 ms\n"))

    def test_a_machine_without_nvidia_smi_has_no_gpus(self):
        with mock.patch.dict(os.environ, PATH=str(self.folder)):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            self.assertEqual([], machine.visible_gpus())

    def test_names_that_do_not_exist_are_refused(self):
        for arguments, words in ((("fast",), "no benchmark 'fast'"), (("speed", "--presets", "none"), "no configs/none.env"),
                                 (("fp8", "--variants", "FP9"), "expected some of: bf16, FP8=mlp"),
                                 (("versions", "--builds", BUILD), "name at least two build folders")):
            done = self.bench(*arguments)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(words, done.stderr)


class Data(BenchTest):
    def test_every_kind_of_tokenizer_finds_as_many_tokens_as_its_package(self):
        done = self.bench("tokenizers", "--megabytes", 1, "--pieces", 600, "--rounds", 1)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for kind in ("SentencePiece BPE", "tokenizer.json, GPT-2's", "tokenizer.json, Qwen's, NFC", "tokenizer.json, 32-bit ids"):
            self.assertRegex(done.stdout, rf"(?m)^{kind} .*\d\.\d\d$")
        self.assertRegex(done.stdout, r"(?m)^\.tiktoken, Llama 3's .*(\d\.\d\d|no tiktoken\))$")


class Scores(BenchTest):
    def test_a_plan_of_test_time_training_is_timed(self):
        done = self.bench("ttt")
        self.assertRegex(done.stdout, r"(?m)^scored 3 batches, (\d+) tokens in \S+ s: \d+ tokens/s", done.stderr)
        self.assertEqual(2, len(re.findall(r"^base training, \w+ time", done.stdout, re.M)), done.stdout)

    def test_an_artifact_is_packed_and_read(self):
        printed, rows = self.table_of(self.forked_bench("gptq", "--rounds", 1, "--compressors", "lzma"))
        _, hessians, quantized, packed, read, size = dict(rows)["lzma"]
        self.assertGreater(min(map(float, (hessians, packed, read))), 0, printed)
        self.assertGreaterEqual(float(quantized), 0)
        self.assertGreater(int(size), 100_000)


class Losses(BenchTest):
    loss = ("loss", "--device", "cpu", "--preset", "quickstart")

    def test_number_formats_side_by_side(self):
        texts = sorted(str(path) for path in TEXT.iterdir() if path.is_file() and not path.is_symlink())
        subprocess.run(
            [BUILD / "make_shards", "--tokenizer", TOKENIZER, "--out", self.folder / "shards", "--shuffle", "1",
             "--val-fraction", "0.2", "--document-separator", "blank-line", *texts],
            check=True, stdout=subprocess.DEVNULL)
        done = self.forked_bench(*self.loss, "--data", self.folder / "shards", "--dtypes", "fp32", "bf16", "fp32:7",
                                 "--steps", 20, "--batch-tokens", 512, **TINY)
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

        quiet = self.forked_bench(*self.loss, "--data", self.folder / "shards", "--dtypes", "fp32", "fp32", "--steps", 3,
                                  "--batch-tokens", 512, "--lr-divisor", 4, **TINY)
        self.assertIn("fp32_again", quiet.stdout)
        settings = json.loads((self.folder / "out" / "fp32_again" / "config.json").read_text())["settings"]
        self.assertEqual((0.01, 0.01, 0.0125), tuple(settings[name] for name in ("MATRIX_LR", "SCALAR_LR", "TIED_EMBED_LR")))
        self.assertEqual(0, settings["LATE_QAT_THRESHOLD"])

    def test_without_shards_or_text_it_says_what_to_do(self):
        bare = self.folder / "bare"  # where the quickstart has not run
        for name in ("scripts", "configs", "tests/bench"):
            shutil.copytree(SOURCE / name, bare / name)
        done = self.bench(*self.loss, "--data", self.folder / "none", "--dtypes", "fp32", repository=bare, **TINY)
        self.assertEqual(1, done.returncode)
        self.assertIn("MORE_TEXT=1 scripts/quickstart.sh", done.stderr)

    def gpus_seen(self, nvidia_smi, visible):
        """With this script as nvidia-smi and CUDA_VISIBLE_DEVICES → those the scripts see, and how many the tests."""
        program = self.folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{nvidia_smi}\n")
        program.chmod(0o755)
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            if visible is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = visible
            scripts = subprocess.run(["bash", "-c", "source scripts/common.sh; source scripts/gpu_common.sh; visible_gpus"],
                                     cwd=SOURCE, capture_output=True, text=True, check=False).stdout.split()
            bench, tests = machine.visible_gpus(), gpu_count.__wrapped__()
        self.assertEqual(scripts, bench)
        return scripts, tests

    def test_scripts_and_tests_see_the_gpus_that_a_program_sees(self):
        three = "printf 'GPU %s: NVIDIA H100 (UUID: GPU-1)\\n' 0 1 2"
        for visible, gpus in ((None, ["0", "1", "2"]), ("1", ["1"]), ("0,2", ["0", "2"]), ("", []), ("-1", [])):
            self.assertEqual((gpus, len(gpus)), self.gpus_seen(three, visible))
        # CUDA_VISIBLE_DEVICES alone makes no GPU.
        self.assertEqual(0, self.gpus_seen("exit 9", "0")[1])


if __name__ == "__main__":
    unittest.main()
