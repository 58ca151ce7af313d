"""Reads the metrics of runs, finished or growing, for wandb_import.py and trackio_import.py. Needs Python alone."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

AT_A_STEP = {"train", "timing", "val", "skipped_step", "checkpoint"}
AT_THE_END = {"memory", "closing", "artifact"}
PATHS = {"RESUME", "LR_TRACE"}  # settings that are paths, beside those that end so
PATH_ENDINGS = ("_PATH", "_DIR", "_FROM")


def numbers(event, prefix):
    """Returns the numbers of an event by name: train_loss of `train` becomes train/loss. null means not finite."""
    return {f"{prefix}/{field.removeprefix(event['event'] + '_')}": float("nan") if value is None else value
            for field, value in event.items()
            if field != "step" and (value is None or type(value) in (int, float))}


def shareable(settings, with_paths):
    """Returns the settings, without those that say where files are unless `with_paths`."""
    return {name: value for name, value in settings.items()
            if with_paths or not (name in PATHS or name.endswith(PATH_ENDINGS) or "/" in str(value))}


class Run:
    """Hands the events of a run to a sink, each step once, also if the run goes on from a checkpoint or the sink has
    some of its steps already.

    A sink has last_step (the last step that it holds, or -1), row(step, numbers) for each step in order,
    summary(numbers), and close(code), with the exit code or None.
    """

    def __init__(self, folder, open_sink):
        self.folder, self.open_sink = folder, open_sink
        self.path = folder / "metrics.jsonl"
        self.file = self.sink = self.code = None
        self.forget()

    def forget(self):
        """Begins a file: its rows up to the sink's last step are skipped."""
        self.step, self.numbers, self.ended, self.last_line = 0, {}, False, b""

    def open(self):
        self.file = open(self.path, "rb")
        if self.sink is None:
            self.sink = self.open_sink(self.folder)

    def poll(self):
        """Reads the complete lines that there are. Returns whether the last one is the run's end."""
        if self.file is None:
            self.open()
        elif self.was_cut():
            self.file.seek(0)
            self.forget()
        elif self.has_another_name():
            self.read()
            self.finish()
            self.forget()
            self.open()
        self.read()
        return self.ended

    def has_another_name(self):
        """Returns whether a new run took the name: our file is metrics.1.jsonl now."""
        try:
            return not os.path.samestat(os.fstat(self.file.fileno()), os.stat(self.path))
        except FileNotFoundError:  # between two names
            return False

    def was_cut(self):
        """Returns whether the line that was read last is gone: the run went on from a checkpoint."""
        at = self.file.tell()
        self.file.seek(at - len(self.last_line))
        return self.file.read(len(self.last_line)) != self.last_line

    def read(self):
        while True:
            at = self.file.tell()
            line = self.file.readline()
            if not line.endswith(b"\n"):  # the run is still writing this line
                self.file.seek(at)
                return
            self.last_line = line
            self.add(json.loads(line))

    def add(self, event):
        kind = event["event"]
        self.ended = kind == "exit"
        self.code = event["code"] if self.ended else None
        if kind in AT_A_STEP:
            # A val event follows the train event of its step: all numbers of a step are one row.
            if event["step"] > self.step:
                self.flush()
                self.step = event["step"]
            self.numbers.update(numbers(event, kind))
        elif kind in AT_THE_END:
            self.sink.summary(numbers(event, kind))
        elif kind == "final":
            self.sink.summary(numbers({**event, "event": "val"}, f"final/{event['name']}"))

    def flush(self):
        if self.numbers and self.step > self.sink.last_step:
            self.sink.row(self.step, self.numbers)
            self.sink.last_step = self.step
        self.numbers = {}

    def finish(self):
        """Writes the last row and closes the sink and the file."""
        if self.sink is None:
            return
        self.flush()
        self.sink.close(self.code)
        self.file.close()
        self.sink = self.file = None


def follow(run, every_s, patience_s):
    """Follows a run to its end: exit code 0, or another one after which it does not go on within `patience_s`."""
    ended_at = None
    while True:
        if run.file is None and not run.path.exists():
            time.sleep(every_s)  # the run has not begun
            continue
        if not run.poll():
            ended_at = None
        elif run.code == 0:
            break
        else:
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at >= patience_s:
                break
        time.sleep(every_s)
    run.finish()


def run_name(folder, settings):
    """Returns RUN_ID, or the folder's name if the program made RUN_ID up."""
    name = settings.get("RUN_ID", "")
    return folder.name if not name or re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) else name


def config_of(folder):
    """Returns the settings of a run; empty while there is no config.json."""
    try:
        return json.loads((folder / "config.json").read_text())["settings"]
    except FileNotFoundError:
        return {}


def parse(doc, program):
    parser = argparse.ArgumentParser(prog=program, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=pathlib.Path, help="a run's folder, such as logs/RUN_ID")
    parser.add_argument("--follow", action="store_true", help="log each run while it trains, until it ends")
    parser.add_argument("--every", type=float, default=2, metavar="S", help="seconds between two readings (2)")
    parser.add_argument("--patience", type=float, default=120, metavar="S",
                        help="how long a run that failed may take to go on from a checkpoint (120)")
    parser.add_argument("--paths", action="store_true", help="log settings that are paths, too")
    return parser.parse_args()


def main(doc, program, package, open_sink):
    """Runs an importer. `open_sink`: (folder, settings to share) → sink, called once `package` is known to be there."""
    options = parse(doc, program)
    for folder in options.runs:
        for name in ("metrics.jsonl", "config.json"):
            if not options.follow and not (folder / name).is_file():
                print(f"{program}: {folder / name}: no such file (expected a run's folder, such as logs/RUN_ID)",
                      file=sys.stderr)
                return 66
    try:
        __import__(package)
    except ImportError:
        print(f"{program}: the package {package} is not installed; install it with: pip install {package}", file=sys.stderr)
        return 69
    if options.follow and len(options.runs) > 1:
        # A process per run: the packages have one current run.
        flags = [word for word in sys.argv[1:] if pathlib.Path(word) not in options.runs]
        followers = [subprocess.Popen([sys.executable, sys.argv[0], *flags, folder]) for folder in options.runs]
        try:
            return max(follower.wait() for follower in followers)
        except KeyboardInterrupt:  # the followers got it too
            return max(follower.wait() for follower in followers)
    for folder in options.runs:
        run = Run(folder, lambda of: open_sink(of, shareable(config_of(of), options.paths)))
        try:
            if options.follow:
                follow(run, options.every, options.patience)
            else:
                run.poll()
        except KeyboardInterrupt:
            pass
        finally:
            run.finish()
    return 0
