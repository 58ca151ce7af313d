"""Runs the real programs on real text: common code of the end-to-end tests."""

import atexit
import functools
import json
import os
import pathlib
import pty
import socket
import struct
import subprocess
import tempfile
import unittest

import preloaded

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))
PROGRAM = (BUILD / "train_gpt",)
TORCHRUN = SOURCE / ".venv" / "bin" / "torchrun"
TOKENIZER = SOURCE / "tests" / "fixtures" / "data_bpe.model"
VOCAB = 512  # pieces of TOKENIZER
TEXT = pathlib.Path("/usr/share/common-licenses")  # exists on every Debian and Ubuntu

# Small enough for a run in less than a second, with every part of the record switched on. A step has two
# micro-batches: with the default of eight (GRAD_ACCUM_STEPS=None) a run takes 1.5 times as long.
SMALL = {
    "VOCAB_SIZE": VOCAB, "NUM_LAYERS": 4, "MODEL_DIM": 32, "NUM_HEADS": 4, "NUM_KV_HEADS": 2,
    "BIGRAM_VOCAB_SIZE": 64, "BIGRAM_DIM": 32, "XSA_LAST_N": 1, "ROPE_DIMS": 4, "VE_DIM": 24,
    "VE_LAYERS": "2,3", "TRAIN_SEQ_LEN": 32, "EVAL_SEQ_LEN": 0, "TRAIN_BATCH_TOKENS": 256,
    "GRAD_ACCUM_STEPS": 2, "VAL_BATCH_SIZE": 512, "VAL_TOKENS": 512, "ITERATIONS": 8, "WARMDOWN_ITERS": 4,
    "WARMUP_STEPS": 1, "VAL_LOSS_EVERY": 4, "TRAIN_LOG_EVERY": 1, "MAX_WALLCLOCK_SECONDS": 0,
    "MUON_MOMENTUM_WARMUP_STEPS": 6, "EVAL_STRIDE": 0, "ARTIFACT": "none", "DEVICE": "cpu",
}
TWO_LAYERS = SMALL | {"NUM_LAYERS": 2, "VE_LAYERS": "1"}  # for promises that any model shows
# The last record's recipe: blocks 2 and 3 of five recur from step 6 of 12 on, and lanes begin with block 4.
LAST_RECORD = dict(
    SMALL, RECIPE="last_record", LOADER_ORDER="documents", NUM_LAYERS=5, MODEL_DIM=64, NUM_HEADS=4, NUM_KV_HEADS=2,
    MLP_MULT=2, XSA_LAST_N=5, ROPE_DIMS=8, ROPE_YARN=0, BIGRAM_VOCAB_SIZE=0, VE_ENABLED=0, SMEAR_GATE=0,
    SMEAR_GATE_ENABLED=1, SPARSE_ATTN_GATE_ENABLED=1, SPARSE_ATTN_GATE_SCALE=0.5, SKIP_GATES_ENABLED=1, NUM_LOOPS=2,
    LOOP_START=2, LOOP_END=3, ENABLE_LOOPING_AT=0.5, PARALLEL_START_LAYER=4, MUON_COEFFICIENTS="polar_express",
    MUON_ROW_NORMALIZE=1, WARMDOWN_FRAC=0.85, MIN_LR=0.1, SWA_ENABLED=0, LATE_QAT_THRESHOLD=0, WARMUP_STEPS=0,
    ITERATIONS=12)
# Record 43's recipe: windows change before steps 2, 4 and 6, and Adam updates after odd steps. A row of validation is
# longer than the last one's window of 80 tokens.
SPEEDRUN_43 = dict(
    RECIPE="speedrun_43", VOCAB_SIZE=VOCAB, BOS_ID=1, MODEL_DIM=48, NUM_HEADS=6, NUM_KV_HEADS=6, MLP_MULT=2,
    TRAIN_BATCH_TOKENS=256, GRAD_ACCUM_STEPS=2, SEGMENT_LIMIT=40, VAL_TOKENS=256, VAL_BATCH_SIZE=1024, EVAL_SEQ_LEN=128,
    VAL_LOSS_EVERY=2, ITERATIONS=8, SCHEDULE_ITERATIONS=6, WINDOW_BLOCK=4, SHORT_WINDOW="1,3@2,5@4,6@6",
    LONG_WINDOW="3,7@2,11@4,13@6", MUON_MOMENTUM_WARMUP_STEPS=3, MUON_MOMENTUM_COOLDOWN_STEPS=2, DEVICE="cpu")
# Record 89's recipe: batch, documents and targets change with the windows; PREFIX_TABLE is the test's.
SPEEDRUN_89 = dict(
    SPEEDRUN_43, RECIPE="speedrun_89", BIGRAM_VOCAB_SIZE=128, BIGRAM_DIM=48, BIGRAM_SIGN_ROWS=32, MUDD_DIM=8, DC_WINDOW=5,
    SEGMENT_LIMIT="28,48@2", TRAIN_BATCH_TOKENS="256,384@2,512@4", LR_SCALE="1,1.52@2,1.73@4",
    MTP_WEIGHTS="1/0.5/0.25:0,1/0.5:0@2,1@4", PREFIX_WEIGHT="0.25,0.25:0@2,0@4", UNTIE_EMBEDDINGS_AT=5)
# The default of eight micro-batches, which any number of ranks can divide.
OF_RANKS = dict(SMALL, GRAD_ACCUM_STEPS=None, TRAIN_BATCH_TOKENS=1024, VAL_BATCH_SIZE=2048, VAL_TOKENS=2048)


@functools.cache
def common_folder():
    """Returns the folder for files that the tests of this process create once and share."""
    folder = tempfile.TemporaryDirectory(prefix="train_gpt-test-")
    atexit.register(folder.cleanup)
    return pathlib.Path(folder.name)


@functools.cache
def licences_shards(tokens=30000):
    """Returns a folder of shards of the licences' text, each with this many tokens."""
    shards = common_folder() / str(tokens) / "shards"
    texts = sorted(str(path) for path in TEXT.iterdir() if path.is_file() and not path.is_symlink())
    subprocess.run(
        [BUILD / "make_shards", "--tokenizer", TOKENIZER, "--out", shards, "--val-fraction", "0.2",
         "--shard-tokens", str(tokens), *texts],
        check=True, stdout=subprocess.DEVNULL)
    return shards


class RunTest(unittest.TestCase):
    """A test with its own folder, with shards of the licences' text, that runs train_gpt."""

    small = SMALL
    preloaded = True  # fork processes from one that has the libraries loaded, if possible
    _losses_of_small = None

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="train_gpt-test-")
        cls.folder = pathlib.Path(cls._folder.name)
        cls.shards = licences_shards()

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def start_gpt(self, *flags, output="out", stdout=subprocess.PIPE, through=(), program=PROGRAM, ranks=1, **settings):
        """Starts train_gpt with the settings of `small` and these; returns the process. Its files are in self.out.

        `through`: a command that starts it, such as strace; `program`: () if that command names the program; `ranks`:
        their number, on this host's CPUs. Where a rank is to end the others, mpirun must start them, by `through`.
        """
        self.out = self.folder / output
        chosen = dict(self.small, DATA_PATH=self.shards, TOKENIZER_PATH=TOKENIZER, OUTPUT_DIR=self.out,
                      RUN_ID="test", OMP_NUM_THREADS=1)
        chosen.update(settings)
        plain = {name: os.environ[name]
                 for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HOPPER")
                 if name in os.environ}
        # The sanitizers' build runs these tests too.
        plain.update({name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
        env = dict(plain, **{name: str(value) for name, value in chosen.items() if value is not None})
        # GOMP_SPINCOUNT is what train_gpt would set, so that it need not execute itself again.
        if self.preloaded:
            env.setdefault("GOMP_SPINCOUNT", preloaded.LOADED_WITH["GOMP_SPINCOUNT"])
        start = subprocess.Popen
        if self.preloaded and program == PROGRAM and not through and gpu_count() == 0 and preloaded.can_start(env):
            start, program = functools.partial(preloaded.Preloaded, ranks=ranks), (BUILD / "preloaded",)
        elif ranks > 1:
            through = [*mpirun(ranks), *through]
        return start([*through, *program, *map(str, flags)], env=env, cwd=self.folder, text=True, stdout=stdout,
                     stderr=subprocess.PIPE)

    def launch(self, *flags, **settings):
        """Starts scripts/launch.sh with these flags and settings; returns the process."""
        return self.start_gpt(*flags, through=[SOURCE / "scripts" / "launch.sh"], program=(), BUILD_DIR=BUILD, **settings)

    def run_gpt(self, *flags, **settings):
        """Runs train_gpt as start_gpt() does and returns the finished process."""
        with self.start_gpt(*flags, **settings) as process:
            try:
                output, errors = process.communicate(timeout=120)
            finally:
                end(process)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def run_in_terminal(self, *flags, **settings):
        """Runs train_gpt, which must succeed, with a terminal as its standard output, and returns the terminal's
        text."""
        ours, theirs = pty.openpty()
        done = self.run_gpt(*flags, stdout=theirs, **settings)
        os.close(theirs)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # raised when the other end of the terminal is closed
            pass
        os.close(ours)
        return shown.decode()

    def train(self, *flags, **settings):
        """Runs train_gpt, which must succeed, and returns its events."""
        done = self.run_gpt(*flags, **settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.lines = done.stdout.splitlines()
        self.warnings = done.stderr.splitlines()
        return read_events(self.out)

    def port(self):
        """Returns a port that no other program gets until this test ends. A store can listen on it, because it sets
        SO_REUSEADDR; if none does, nothing answers."""
        holder = self.enterContext(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]

    def losses_of_small(self):
        """Returns the losses of a run with SMALL, which is trained once per process, for comparisons."""
        if RunTest._losses_of_small is None:
            RunTest._losses_of_small = train_losses(self.train(output="small", **SMALL))
        return RunTest._losses_of_small

    def fails(self, exit_code, *words, **settings):
        """Runs train_gpt, which must end with that exit code and one error line that contains all these words."""
        done = self.run_gpt(**settings)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(f"exit={exit_code} rank=0", errors[0])
        for word in words:
            self.assertIn(str(word), errors[0])
        return errors[0]


def read_until(process, *starts):
    """Reads the process' output until a line with each of these beginnings has come, in any order."""
    awaited = set(starts)
    for line in process.stdout:
        awaited = {start for start in awaited if not line.startswith(start)}
        if not awaited:
            return
    raise AssertionError(f"no line {awaited}: {process.communicate()[1]}")


def saved_line(folder, step):
    """Returns how the line begins that reports the completed checkpoint of that step."""
    return f"checkpoint:{folder}/checkpoints/step-{step:08} "


@functools.cache
def gpu_count():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return 0
    count = 0 if listed.returncode else len(listed.stdout.splitlines())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return count
    return min(count, len([device for device in visible.split(",") if device and device[0] != "-"]))


def mpirun(ranks, *more):
    """Returns the command that starts this many ranks on this host's CPUs, for start_gpt's `through`; `more`: flags of
    mpirun."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # Starts nothing on other hosts, so ssh is not needed.
    return ["mpirun", "--quiet", *root, "--mca", "plm", "isolated", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *map(str, more)]


def children_named(name, pid):
    """Returns the pids of that process and its descendants whose program has this name."""
    found = []
    for child in map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += children_named(name, child)
    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
        found.append(pid)
    return found


def is_running(pid):
    """Returns whether the process has not exited, also if nothing has waited for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def end(process):
    """Terminates the process if it is still running; a launcher gets time to stop its ranks first."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()


def read_events(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def train_losses(events):
    return [event["train_loss"] for event in events if event["event"] == "train"]


def write_shard(path, tokens, magic=20240520, version=1, count=None):
    header = struct.pack("<3i", magic, version, len(tokens) if count is None else count)
    path.write_bytes(header.ljust(1024, b"\0") + struct.pack(f"<{len(tokens)}H", *tokens))
