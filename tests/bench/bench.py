#!/usr/bin/env python3
"""usage: scripts/bench.sh NAME [OPTION ...] [-- TRAIN_GPT_FLAG ...]

Measures train_gpt. Each variant of a benchmark runs in turn with the others, round after round, with the same tokens and
initial weights; the table shows medians of the steps after the first four, and ratios to the row that is named first
or, if it runs, torch.compile's. Without a GPU a tiny model runs instead: this only tests the benchmark, its times mean
nothing. Settings in the environment apply to every run. Tables, logs and metrics go to $OUT (logs/bench/NAME).

Training, in bf16 with synthetic tokens:
  speed       train_gpt, FP8=1 and torch.compile (tests/bench/torch_compile_peer.py): step, power, memory, first step;
              then each operation alone (build/op_bench) and the phases of a step
  fp8         what each part of FP8 gains: FP8=mlp; qkv; out; head; mlp,qkv,head; 1
  shapes      vocabulary, heads and widths that train_gpt pads, beside their neighbours
  recurrence  the last record before depth recurrence and in it: bf16, ACTIVATION_RECOMPUTE=light, FP8=1, torch.compile
  generic     torch.compile, and train_gpt with and without Hopper's kernels (HOPPER=0)
  stages      records 43, 89 and 91 in each of their stages: bf16, parts in FP8, torch.compile
  passes      records 43 and 89 in each of their stages with one or several micro-batches a pass (PASS_TOKENS), FP8=1
  memory      ACTIVATION_RECOMPUTE and MEMORY_LIMIT_GB with GRAD_ACCUM_STEPS=auto
  versions    the programs of several build folders (--builds), the one before a change first
  operations  each operation alone (build/op_bench) in several builds (--builds), in turns
  ranks       every preset of a record in bf16 and FP8=1 on 1, 2, 4, ... GPUs of this host, relative to the slowest of
              them alone: an independent run on every GPU at once finds it
  cpu         the quickstart's model on this CPU beside PyTorch eager; exit status 1 if losses are not equal to 1e-4
  orders      the quickstart's model on this CPU in the stream and the documents order
Losses of number formats over many steps (scripts/bench.sh loss --help):
  loss        fp32, bf16 and fp8 beside each other, with the curves as a picture
The end of a run, on one GPU:
  gptq        ARTIFACT=gptq: seconds for Hessians, GPTQ, packing and reading, per compressor
  ttt         phased test-time training: tokens per second, and the kernels by time
Data, on an idle CPU (scripts/bench.sh loader --help):
  loader      tokens per second of the loader beside PyTorch's DataLoader
  text        make_shards on JSON lines and on the same file compressed
  tokenizers  make_shards with each kind of tokenizer beside the Python package for it
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import threading

import bench_loader
import bench_operations
import bench_text
import bench_tokenizers
import final_scores
import losses
import speed_picture
from bench_table import Row, print_phases, print_table
from machine import BUILD, ROOT, Machine, inspect_settings, preset_file, say, synthetic_tokens, visible_gpus

FIRST = ("ms", "least", "most", "ratio")
LAST = ("peak MiB", "first step s", "losses apart")


@dataclasses.dataclass
class Variant:
    """A row of the table, and how its runs start. Ratios are to the reference of the variants of the same group."""

    name: str
    settings: dict = dataclasses.field(default_factory=dict)
    group: str = ""
    peer: bool = False  # the PyTorch script instead of train_gpt
    ranks: int = 1
    build: pathlib.Path = BUILD
    everywhere: bool = False  # an independent run on every GPU at once
    gpu_only: bool = False
    presets: tuple = ()  # runs with these alone; empty: with all
    tiny: dict = dataclasses.field(default_factory=dict)  # without a GPU, as of a Bench


@dataclasses.dataclass
class Bench:
    presets: tuple
    variants: object  # a list of Variants, or a function of the options that returns it
    columns: tuple = (*FIRST, "tokens/s", *LAST)
    rounds: int = 2
    steps: int = 14
    settings: dict = dataclasses.field(default_factory=dict)
    device: str = "gpu"
    tiny: dict = dataclasses.field(default_factory=dict)  # without a GPU, where the variants need another model


# In 16 bits the output projection is one kernel with the residual sum and the norm after it; in FP8 it is not.
FP8 = [Variant(f"FP8={parts}" if parts != "0" else "bf16", {"FP8": parts}, gpu_only=parts != "0")
       for parts in ("0", "mlp", "qkv", "out", "head", "mlp,qkv,head", "1")]
PEER = Variant("torch.compile", peer=True)


def heads(group, count, width, **settings):
    shape = {"MODEL_DIM": count * width, "NUM_HEADS": count, "NUM_KV_HEADS": count}
    return Variant(f"{count} heads of {width}", shape | settings, group)


SHAPES = [
    *(Variant(f"vocabulary of {size}", {"VOCAB_SIZE": size}, group="vocabulary") for size in (50257, 50304)),
    *(heads("heads", 12, width, ROPE_DIMS=16) for width in (50, 56)),
    *(heads("rotated", 12, width) for width in (50, 64)),
    *(heads("width", *shape, ROPE_DIMS=16) for shape in ((7, 110), (4, 194), (7, 112), (6, 128))),
]
# Fraction of the run at which recurrence begins: 2 (never) or 0.
RECURRENCE = [dataclasses.replace(variant, group=group, settings={**variant.settings, "ENABLE_LOOPING_AT": begins})
              for group, begins in (("before recurrence", 2), ("in recurrence", 0))
              for variant in (Variant("bf16"), Variant("bf16, light", {"ACTIVATION_RECOMPUTE": "light"}), FP8[-1], PEER)]

GENERIC = [PEER, *(dataclasses.replace(variant, name=variant.name + suffix, settings=variant.settings | settings)
                   for suffix, settings in (("", {}), (", HOPPER=0", {"HOPPER": 0})) for variant in (FP8[0], FP8[-1]))]


def stage_variants(presets, stages, variants, tiny):
    """stages: the settings of each."""
    return [dataclasses.replace(variant, group=f"windows of {stage['SHORT_WINDOW']} and {stage['LONG_WINDOW']} blocks",
                                settings=variant.settings | stage, presets=presets, tiny=tiny)
            for stage in stages for variant in variants]


def windows(small, large):
    return {"SHORT_WINDOW": small, "LONG_WINDOW": large}


def pass_sizes(*tokens):
    return [Variant(f"PASS_TOKENS={size}", {"PASS_TOKENS": size} | FP8[-1].settings) for size in tokens]


# Without changes in the course of the run. Head and embeddings are one table in the first two stages, and two tables after
# the first update in the last one.
STAGES_89 = [
    {"TRAIN_BATCH_TOKENS": tokens, "SEGMENT_LIMIT": longest, "MTP_WEIGHTS": weights, "PREFIX_WEIGHT": prefix, "LR_SCALE": 1,
     "UNTIE_EMBEDDINGS_AT": untied, "VALIDATION_MASK": 0, **windows(small, large)}
    for tokens, longest, weights, prefix, untied, small, large in (
        (131072, 896, "1/0.5/0.25", 0.25, 847, 1, 3),
        (262144, 2048, "1/0.5", 0.25, 847, 3, 7),
        (393216, 2048, "1", 0, 1, 5, 11))]
TINY_STAGES = {"ROPE_DIMS": 0, "BOS_ID": 500, "SEGMENT_LIMIT": 64, "EVAL_SEQ_LEN": 64, "GATE_WINDOW": 12}
TINY_43 = TINY_STAGES | {"MODEL_DIM": 64, "NUM_KV_HEADS": 4, "WINDOW_BLOCK": 8}
TINY_89 = TINY_STAGES | {
    "MODEL_DIM": 96, "NUM_HEADS": 6, "NUM_KV_HEADS": 6, "WINDOW_BLOCK": 4, "BIGRAM_DIM": 96, "BIGRAM_VOCAB_SIZE": 1000,
    "BIGRAM_SIGN_ROWS": 64, "MUDD_DIM": 8, "DC_WINDOW": 10, "TRAIN_BATCH_TOKENS": 256, "GRAD_ACCUM_STEPS": 1}
TINY_91 = TINY_89 | {"QK_HEAD_DIM": 12}
ANY_WORLD = {"TRAIN_BATCH_TOKENS": 1024, "GRAD_ACCUM_STEPS": 0}  # as many micro-batches on any number of ranks
SPEEDRUN = {"WARMUP_STEPS": 0, "EVAL_SEQ_LEN": 8192}  # a stage alone has no warm-up; validation's rows are not training's
STAGES = [
    *stage_variants(("speedrun_43",), [windows(1, 3), windows(3, 7), windows(5, 11)], (FP8[0], *FP8[-3:], PEER), TINY_43),
    *stage_variants(("speedrun_89",), STAGES_89, (FP8[0], FP8[4], FP8[-1], PEER), TINY_89),
    *stage_variants(("speedrun_91",), STAGES_89, (FP8[0], FP8[4], FP8[-1], PEER), TINY_91)]
PASSES = [
    *stage_variants(("speedrun_43",), [windows(3, 7)], pass_sizes(0, 65536, 131072, 262144), TINY_43),
    *stage_variants(("speedrun_89",), STAGES_89, pass_sizes(0, 65536, 98304, 131072, 196608), TINY_89)]
ORDERS = [Variant("stream", {"DOCUMENT_ATTENTION": 0}), Variant("stream, segments", {"DOCUMENT_ATTENTION": 1}),
          Variant("documents", {"LOADER_ORDER": "documents", "DOCUMENT_ATTENTION": 0}),
          Variant("documents, segments", {"LOADER_ORDER": "documents", "DOCUMENT_ATTENTION": 1})]


def memory_variants(options):
    return [Variant("no limit"), *(Variant(f"recompute {kind}", {"ACTIVATION_RECOMPUTE": kind}) for kind in ("light", "block")),
            *(Variant(f"limit {limit} GB", {"MEMORY_LIMIT_GB": limit, "GRAD_ACCUM_STEPS": "auto"}) for limit in options.limits)]


def version_variants(options):
    if len(options.builds) < 2:
        sys.exit("ERROR bench: versions: name at least two build folders with --builds; ratios are to the first")
    ranks = options.ranks[0] if options.ranks else 1
    return [Variant(str(build), build=ROOT / build, ranks=ranks) for build in options.builds]


def rank_variants(options):
    """Presets with stages train in the one that most of their time goes to."""
    counts = options.ranks or [2**i for i in range(len(visible_gpus()).bit_length())] or [1, 2]
    worlds = [Variant("alone", everywhere=True, gpu_only=True), *(Variant(f"{count} ranks", ranks=count) for count in counts)]
    formats = FP8[0], FP8[-1]
    recurrence = [dataclasses.replace(form, presets=("record_1061",), group=depth.group, tiny=final_scores.TINY_LAYERS,
                                      settings=depth.settings | form.settings | {"WARMUP_STEPS": 0})
                  for depth in RECURRENCE if depth.name == "bf16" for form in formats]
    forms = [*(dataclasses.replace(form, presets=("record", "speedrun_124m")) for form in formats), *recurrence,
             *stage_variants(("speedrun_43",), [windows(3, 7) | SPEEDRUN], formats, TINY_43),
             *stage_variants(("speedrun_89",), [STAGES_89[-1] | SPEEDRUN], formats, TINY_89 | ANY_WORLD),
             *stage_variants(("speedrun_91",), [STAGES_89[-1] | SPEEDRUN], formats, TINY_91 | ANY_WORLD)]
    return [dataclasses.replace(world, group=", ".join(filter(None, (form.group, form.name))), settings=form.settings,
                                gpu_only=world.gpu_only or form.gpu_only, presets=form.presets, tiny=form.tiny)
            for form in forms for world in worlds]


BENCHES = {
    "speed": Bench(("record", "speedrun_124m"), [PEER, FP8[0], FP8[-1]], steps=10,
                   columns=(*FIRST, "tokens/s", "MFU", "W", "MHz", "J", *LAST),
                   settings={"TRAINING_TIMING_BREAKDOWN": "events"}),
    "fp8": Bench(("record", "gpt124m"), FP8),
    "shapes": Bench(("gpt124m",), SHAPES, rounds=1, columns=(*FIRST, "peak MiB", "padded"),
                    tiny={"NUM_LAYERS": 1, "MLP_MULT": 1, "MUON_BACKEND_STEPS": 1, "TRAIN_BATCH_TOKENS": 128}),
    "recurrence": Bench(("record_1061",), RECURRENCE, rounds=1, columns=(*FIRST, *LAST), settings={"WARMUP_STEPS": 0},
                        tiny=final_scores.TINY_LAYERS),
    "generic": Bench(("record", "speedrun_124m", "record_1061"), GENERIC, rounds=1, settings={"ENABLE_LOOPING_AT": 2}),
    "stages": Bench(("speedrun_43", "speedrun_89", "speedrun_91"), STAGES, rounds=1, steps=16,
                    columns=(*FIRST, "tokens/s", "MFU", "W", *LAST), settings=SPEEDRUN),
    "passes": Bench(("speedrun_43", "speedrun_89"), PASSES, rounds=1, columns=(*FIRST, "tokens/s", *LAST),
                    settings=SPEEDRUN, tiny={"FP8": 0}),
    "memory": Bench(("record", "speedrun_124m"), memory_variants, rounds=1, steps=8,
                    columns=("ms", "ratio", "tokens/s", "sequences", "peak MiB"),
                    settings={"VAL_BATCH_SIZE": 524288, "VAL_TOKENS": 524288}),
    "versions": Bench(("record", "gpt124m"), version_variants, columns=(*FIRST, "optimizer", *LAST)),
    "ranks": Bench(("record", "speedrun_124m", "record_1061", "speedrun_43", "speedrun_89", "speedrun_91"), rank_variants,
                   rounds=1, steps=12, columns=("ms", "ratio", "of linear", "comm", "data wait", *LAST),
                   settings={"TRAINING_TIMING_BREAKDOWN": "events", "VAL_BATCH_SIZE": 524288, "VAL_TOKENS": 524288},
                   tiny={"GRAD_ACCUM_STEPS": 0}),
    "cpu": Bench(("quickstart",), [Variant("PyTorch eager", peer=True), Variant("train_gpt")], rounds=3, steps=20, device="cpu",
                 settings={"WARMUP_STEPS": 3, "VAL_BATCH_SIZE": 4096, "VAL_TOKENS": 4096}),
    "orders": Bench(("quickstart",), ORDERS, rounds=3, steps=20, device="cpu", columns=(*FIRST, "tokens/s"),
                    settings={"WARMUP_STEPS": 3, "VAL_BATCH_SIZE": 4096, "VAL_TOKENS": 4096}),
}


def tokens_of(preset, bench):
    """Returns DATA_PATH: documents for a preset that reads them, and the quickstart's shards on a CPU."""
    if bench.device == "cpu":
        shards = pathlib.Path(os.environ.get("DATA_PATH", ROOT / "data/quickstart/shards"))
        if not shards.is_dir() and not str(shards).startswith("synthetic:"):
            sys.exit(f"ERROR bench: no shards in {shards}: run scripts/quickstart.sh first, or set DATA_PATH")
        return shards
    return os.environ.get("DATA_PATH", synthetic_tokens(preset))


def prefix_table(vocabulary, folder):
    """Writes a PREFIX_TABLE for synthetic tokens, in which, as in GPT-2's vocabulary, all but 256 have a prefix; returns its
    path."""
    path = pathlib.Path(folder) / f"prefixes_{vocabulary}.json"
    path.write_text(json.dumps([id // 2 if id >= 256 else -1 for id in range(vocabulary)]))
    return path


def shared_preset(preset, builds, folder):
    """Writes the settings that differ from the last build's defaults, since older programs may know neither a new name
    nor the preset's recipe."""
    defaults = inspect_settings("/dev/null", builds[-1])
    changed = {name: value for name, value in inspect_settings(preset, builds[-1]).items() if defaults.get(name) != value}
    path = pathlib.Path(folder) / preset.name
    path.write_text("".join(f"{name}={value}\n" for name, value in changed.items()))
    return path


class Runner:
    """Runs the variants of a benchmark and keeps their runs by preset, group and variant."""

    def __init__(self, name, bench, options, machine):
        self.name, self.bench, self.options, self.machine = name, bench, options, machine
        variants = bench.variants(options) if callable(bench.variants) else bench.variants
        chosen = [v for v in variants if not options.variants or v.name in options.variants]
        if not chosen:
            sys.exit(f"ERROR bench: --variants: expected some of: {', '.join(dict.fromkeys(v.name for v in variants))}")
        self.variants = [v for v in chosen if machine.gpu or not v.gpu_only]
        self.runs, self.alone = {}, {}  # alone: by preset and group, the runs of each GPU

    def run_round(self, preset, number):
        file = preset_file(preset)
        if self.name == "versions":
            file = shared_preset(file, [v.build for v in self.variants], self.machine.work.name)
        tokens = {"DATA_PATH": tokens_of(preset_file(preset), self.bench)}
        period = int(inspect_settings(preset_file(preset))["ADAM_EVERY"])
        for index, variant in enumerate(self.variants):
            if variant.presets and preset not in variant.presets:
                continue
            settings = {**self.bench.settings, **tokens, **variant.settings}
            if self.machine.tiny:
                kept = {name: value for name, value in settings.items() if not name.startswith("VAL_")}
                settings = kept | self.bench.tiny | variant.tiny
            if variant.settings.get("PREFIX_WEIGHT"):
                vocabulary = int(inspect_settings(file, environment=self.machine.settings({}))["VOCAB_SIZE"])
                settings["PREFIX_TABLE"] = prefix_table(vocabulary, self.machine.work.name)
            name = f"{preset}.{index}.{number}"
            if variant.everywhere:
                self.run_everywhere((preset, variant.group), name, file, settings, period)
                continue
            if variant.peer:
                run = self.machine.train_peer(name, file, self.options.steps, settings, eager=self.bench.device == "cpu",
                                              period=period)
            else:
                run = self.machine.train(name, file, self.options.steps, settings, variant.build, variant.ranks,
                                         period=period)
            if run:
                self.runs.setdefault((preset, variant.group), {}).setdefault(index, (variant, []))[1].append(run)

    def run_everywhere(self, key, name, file, settings, period):
        """Every thread has a list of its own."""
        found = {gpu: self.alone.setdefault(key, {}).setdefault(gpu, []) for gpu in visible_gpus()}

        def train(gpu):
            if run := self.machine.train(f"{name}-gpu{gpu}", file, self.options.steps, settings, gpu=gpu, period=period):
                found[gpu].append(run)
        threads = [threading.Thread(target=train, args=(gpu,)) for gpu in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def rows(self, key):
        """Returns the Rows of a preset and group; the reference is the first: torch.compile's, the slowest GPU alone, or the
        first variant's."""
        ordered = sorted(self.runs.get(key, {}).values(), key=lambda found: not found[0].peer)
        counts = next((own[0] for variant, own in ordered if not variant.peer), None)
        rows = self.rows_alone(key)[:1]
        for variant, own in ordered:
            rows.append(Row(variant.name, own, rows[0] if rows else None, variant.ranks, counts))
        return rows

    def rows_alone(self, key):
        """Returns the Row of each GPU alone, the slowest first."""
        rows = [Row(f"GPU {gpu} alone", runs, counts=runs[0]) for gpu, runs in self.alone.get(key, {}).items() if runs]
        return sorted(rows, key=lambda row: -row.ms)

    def print_tables(self):
        for preset, group in dict.fromkeys([*self.alone, *self.runs]):
            print_table(f"{preset}, {group}" if group else preset, self.bench.columns, self.rows((preset, group)))
            if alone := self.rows_alone((preset, group)):
                print(f"every GPU alone, at the same time: {', '.join(f'{row.ms:.2f}' for row in alone)} ms")

    def draw_speed(self):
        rows = [(preset, f"train_gpt, {row.label}" if row.label != PEER.name else row.label, row.ms,
                 max(run.first_s for run in row.runs)) for preset, group in self.runs for row in self.rows((preset, group))]
        if rows:
            (self.machine.out / "speed.svg").write_text(speed_picture.draw(rows))

    def losses_agree(self, bound=1e-4):
        """Another order of summation changes a loss by 1e-6 within 20 steps."""
        worst = max((row.apart() for key in self.runs for row in self.rows(key)), default=0)
        print(f"losses {'agree' if worst <= bound else 'DIFFER'}: at most {worst:.1e} apart")
        return worst <= bound


def print_operations(presets):
    program = BUILD / "op_bench"
    if not program.exists():
        print(f"\nno {program} (built with -DTRAIN_GPT_TESTS=ON)")
        return
    subprocess.run([program, *presets], timeout=120, check=False)


def training(name, arguments, flags):
    bench = BENCHES[name]
    parser = argparse.ArgumentParser(prog=f"scripts/bench.sh {name}", allow_abbrev=False)
    parser.add_argument("--presets", default=" ".join(bench.presets), help="names of configs/ (%(default)s)")
    parser.add_argument("--rounds", type=int, default=bench.rounds, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=bench.steps, help="of each run, more than five (%(default)s)")
    parser.add_argument("--variants", type=lambda text: text.split("|"), help="only these rows, A|B")
    parser.add_argument("--limits", nargs="+", type=float, default=[8, 12, 16, 24], help="memory: GB (8 12 16 24)")
    parser.add_argument("--ranks", nargs="+", type=int, help="ranks: how many (1, 2, 4, ... up to all GPUs); versions: of each run (1)")
    parser.add_argument("--builds", nargs="+", default=[], help="versions: build folders")
    options = parser.parse_args(arguments)
    presets = options.presets.split()
    for preset in presets:
        preset_file(preset)
    machine = Machine(os.environ.get("OUT", ROOT / "logs" / "bench" / name), bench.device, flags)
    if machine.tiny:
        say("no GPU: a tiny model on the CPU, whose times mean nothing")
    runner = Runner(name, bench, options, machine)
    for number in range(1, options.rounds + 1):
        for preset in presets:
            runner.run_round(preset, number)
    runner.print_tables()
    if name == "speed":
        runner.draw_speed()
        print_operations(presets)
        for (preset, _), runs in runner.runs.items():
            print_phases(preset, [run for variant, own in runs.values() if not variant.peer for run in own])
    agree = name != "cpu" or runner.losses_agree()
    return 1 if machine.failed or not agree else 0


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.rstrip())
        return 0 if arguments else 64
    name, *rest = arguments
    at = rest.index("--") if "--" in rest else len(rest)
    own, flags = rest[:at], rest[at + 1 :]
    others = {"loss": losses.main, "gptq": final_scores.gptq, "ttt": final_scores.ttt, "loader": bench_loader.main,
              "text": bench_text.main, "tokenizers": bench_tokenizers.main, "operations": bench_operations.main}
    command = functools.partial(training, name) if name in BENCHES else others.get(name)
    if command is None:
        print(f"ERROR bench: no benchmark '{name}': expected one of: {', '.join([*BENCHES, *others])}", file=sys.stderr)
        return 64
    return command(own, flags)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
