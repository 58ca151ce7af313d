"""Starts train_gpt and the PyTorch peer on this machine, for bench.py."""
import contextlib
import functools
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from train_run import PeerRun, PowerLog, TrainRun

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
PEER = pathlib.Path(__file__).with_name("torch_compile_peer.py")

# A run that only trains, at constant learning rates, with one warm-up step, and logs every step. Validation, once at
# the end, is no larger than a micro-batch, so that the peak memory is training's.
TRAIN_ONLY = {
    "WARMUP_STEPS": 1, "WARMDOWN_ITERS": 0, "WARMDOWN_FRAC": 0, "VAL_LOSS_EVERY": 0, "MAX_WALLCLOCK_SECONDS": 0,
    "ARTIFACT": "none", "EVAL_STRIDE": 0, "TTT_ENABLED": 0, "PHASED_TTT_ENABLED": 0, "TRAIN_LOG_EVERY": 1,
    "VAL_BATCH_SIZE": 65536, "VAL_TOKENS": 65536, "TOKENIZER_PATH": "",
}
# Without a GPU: a model whose steps take milliseconds, to try the benchmarks themselves.
TINY = {
    "DEVICE": "cpu", "COMPUTE_DTYPE": "fp32", "MODEL_DIM": 32, "NUM_HEADS": 4, "NUM_KV_HEADS": 2, "VOCAB_SIZE": 512,
    "ROPE_DIMS": 4, "MLP_MULT": 2, "TRAIN_SEQ_LEN": 64, "EVAL_SEQ_LEN": 64, "TRAIN_BATCH_TOKENS": 512,
    "GRAD_ACCUM_STEPS": 2, "VAL_BATCH_SIZE": 1024, "VAL_TOKENS": 1024,
}


def say(text):
    print(f"\n== {text}", flush=True)


def has_gpu():
    return shutil.which("nvidia-smi") is not None and subprocess.run(
        ["nvidia-smi", "-L"], capture_output=True, check=False).returncode == 0


def visible_gpus():
    """Returns the GPUs that a program started here sees, in the form that CUDA_VISIBLE_DEVICES accepts."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [gpu for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if gpu and not gpu.startswith("-")]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return [line.split()[1].rstrip(":") for line in listed.splitlines() if line.startswith("GPU ")]


def mpirun(ranks):
    """Returns the words that start a program as several ranks of this host; none for one rank."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(ranks), *as_root] if ranks > 1 else []


def preset_file(name):
    path = ROOT / "configs" / f"{name}.env"
    if not path.exists():
        sys.exit(f"ERROR bench: no preset '{name}': there is no configs/{name}.env")
    return path


@functools.cache
def inspected(preset, build, environment):
    return subprocess.run([build / "train_gpt", "inspect", "--settings", preset], capture_output=True, text=True,
                          env=dict(environment), check=True).stdout


def inspect_settings(preset, build=BUILD, environment=None):
    """Returns {name: text} of all settings of a preset's file, or of the defaults for /dev/null, which the environment
    overrides."""
    printed = inspected(preset, build, tuple(sorted((os.environ if environment is None else environment).items())))
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line and not line.startswith("#"))


def synthetic_tokens(preset):
    """Returns a DATA_PATH for a preset's file: documents if it reads them."""
    return "synthetic:documents" if inspect_settings(preset)["LOADER_ORDER"] in ("documents", "aligned") else "synthetic:zipf"


@contextlib.contextmanager
def power_sampled(path):
    """Samples the first visible GPU's power and clock every 50 ms into `path`; without a GPU, nothing."""
    if not has_gpu():
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        print(time.time(), file=file, flush=True)
        sampler = subprocess.Popen(
            ["nvidia-smi", f"--id={visible_gpus()[0]}", "--query-gpu=timestamp,power.draw.instant,clocks.sm",
             "--format=csv,noheader,nounits", "--loop-ms=50"], stdout=file, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            sampler.kill()
            sampler.wait()


def run_command(command, environment, log, limit_s):
    """Returns the exit status."""
    return subprocess.run(list(map(str, command)), env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                          stderr=subprocess.STDOUT, timeout=limit_s, check=False).returncode


def run_forked_peer(arguments, environment, log, limit_s):
    """Runs the PyTorch peer as a fork of this process, which imports torch once for all of them. Returns the exit status."""
    import torch._dynamo  # noqa: F401
    import torch_compile_peer

    def run():
        os.environ.clear()
        os.environ.update(environment)
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        sys.argv = [str(PEER), *arguments]
        torch_compile_peer.main()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(limit_s)
    if process.is_alive():
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(str(PEER), limit_s)
    return process.exitcode


class Machine:
    """Runs programs with the same settings, and keeps their metrics and logs in `out`; the weights go to a folder that
    is removed at the end."""

    def __init__(self, out, device, flags=()):
        self.out, self.flags = pathlib.Path(out), list(flags)
        self.gpu = device != "cpu" and has_gpu()
        self.tiny = not self.gpu and device != "cpu"
        self.failed = 0
        self.work = tempfile.TemporaryDirectory(prefix="bench-")
        self.out.mkdir(parents=True, exist_ok=True)
        for path in self.out.glob("*.*.*.*"):  # of an earlier call
            if path.suffix in (".log", ".jsonl", ".power"):
                path.unlink()

    def settings(self, chosen):
        """Returns the environment of a run. What a benchmark varies precedes the caller's environment, which precedes
        the defaults here."""
        base = dict(TRAIN_ONLY, **({"DEVICE": "cuda", "COMPUTE_DTYPE": "bf16"} if self.gpu else {"DEVICE": "cpu"}))
        merged = {**base, **os.environ, **(TINY if self.tiny else {}), **chosen}
        return {name: str(value) for name, value in merged.items()}

    def train(self, name, preset, steps, settings, build=BUILD, ranks=1, gpu=None, period=1):
        """Trains; returns a TrainRun, or None if the program failed."""
        folder = pathlib.Path(self.work.name, name)
        environment = self.settings({"ITERATIONS": steps, **settings})
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        command = [*mpirun(ranks), build / "train_gpt", "--config", preset, "--output-dir", folder, "--run-id", "bench",
                   *self.flags]
        done = self.start(name, command, environment, 300)
        if done:
            shutil.copy(folder / "metrics.jsonl", self.out / f"{name}.jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        return self.read(name, functools.partial(TrainRun, period=period), ".jsonl") if done else None

    def train_peer(self, name, preset, steps, settings, eager, period=1):
        """Trains the PyTorch peer; returns a PeerRun, or None. Its compile cache lasts as long as this object. FORKED_PEERS in
        the environment makes it a fork of this process: for tests, since its first step then comes sooner."""
        cache = pathlib.Path(self.work.name)
        environment = self.settings({"TORCHINDUCTOR_CACHE_DIR": cache / "inductor", "TRITON_CACHE_DIR": cache / "triton",
                                     "ITERATIONS": steps, **settings})
        file = cache / f"{name}.env"
        found = inspect_settings(preset, environment=environment)  # what is "auto" is resolved as train_gpt does
        file.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
        arguments = ["--config", str(file), "--steps", str(steps), "--warmup", environment["WARMUP_STEPS"],
                     *(["--eager"] if eager or not self.gpu else [])]
        if "FORKED_PEERS" in os.environ:
            done = self.start(name, arguments, environment, 400, run=run_forked_peer)
        else:
            done = self.start(name, [sys.executable, PEER, *arguments], environment, 400)
        return self.read(name, functools.partial(PeerRun, period=period), ".log") if done else None

    def start(self, name, command, environment, limit_s, run=run_command):
        """Runs a command; its output goes to NAME.log. Returns whether it succeeded, and says so if it did not."""
        began = time.monotonic()
        try:
            with open(self.out / f"{name}.log", "w", encoding="utf-8") as log, power_sampled(self.out / f"{name}.power"):
                code = run(command, environment, log, limit_s)
        except subprocess.TimeoutExpired:
            code = f"none within {limit_s} s"
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
        if code != 0:
            self.failed += 1
            say(f"FAIL {name}, exit status {code}")
            print("".join((self.out / f"{name}.log").read_text(errors="replace").splitlines(True)[-5:]))
        return code == 0

    def read(self, name, kind, suffix):
        try:
            run = kind(self.out / f"{name}{suffix}")
            power = self.out / f"{name}.power"
            run.power = PowerLog(power) if power.exists() else None
            if run.steps:
                return run
            why = "too few steps"
        except (OSError, ValueError, LookupError) as error:
            why = f"{type(error).__name__}: {error}"
        self.failed += 1
        print(f"{name}: no result: {why}")
        return None
