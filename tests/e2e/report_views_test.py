"""How runs show: a report's page, if there is a browser, and `train_gpt watch` in a terminal and without one."""

import itertools
import os
import pty
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import RunTest, read_events, read_until
from reports import ATTACK, ReportTest, start, train, write_run


@unittest.skipUnless(shutil.which("chromium"), "no chromium on this machine: pages are not opened")
class BrowserTest(ReportTest):
    def browse(self, *flags, script=""):
        """Opens the report's file and runs the script in it for 2 s of the page's time; returns chromium's output."""
        text = self.file.read_text()
        self.file.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                 "--virtual-time-budget=2000", "--enable-logging=stderr", *flags, self.file.as_uri()],
                capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        # No error, and nothing that the content security policy blocked.
        self.assertEqual([line for line in done.stderr.splitlines() if "CONSOLE" in line], [])
        return done.stdout

    def test_curves_tables_and_names(self):
        for i in range(2):
            self.train(output=f"seen{i}", RUN_ID=f"seen{i}", SEED=i, TRAINING_TIMING_BREAKDOWN="events", ARTIFACT="int6")
        self.report("seen0", "seen1")
        page = self.browse("--dump-dom")
        for text in ("Training loss", "Validation, bits per byte", "Learning-rate scale", "Gradient norm", "Throughput",
                     "Phases of a step, ms: seen1", "Speed to a loss", "Artifact beside its limit", "Settings that differ",
                     "final_int6_roundtrip_exact", "Machine and versions"):
            self.assertIn(text, page)
        self.assertIn('<th scope="row">SEED</th>', page)
        self.assertIn('<th scope="row">state</th><td class="text">ended</td><td class="text">ended</td>', page)
        self.assertNotIn('<th scope="row">MODEL_DIM</th>', page)  # equal in both runs
        self.assertNotIn("NaN", page.split("</script>")[-1])

    def test_the_x_axis_and_the_cursor_by_keyboard(self):
        self.report(write_run(self.folder / "keys", [start(peak_flops=1e9), *(
            train(step, 5 - step / 4, flops_per_token=1000) for step in range(1, 9))]))
        page = self.browse("--window-size=400,900", "--dump-dom", script="""
            const axis = document.getElementById("axis");
            axis.value = "seconds";
            axis.dispatchEvent(new Event("change"));
            const plot = document.querySelector(".plot");
            plot.focus();
            for (const key of ["End", "ArrowLeft"]) plot.dispatchEvent(new KeyboardEvent("keydown", {key}));
            const read = plot.parentNode.querySelector(".read").textContent;
            const wide = document.documentElement.scrollWidth > innerWidth;
            for (const box of document.querySelectorAll("details")) box.open = true;
            document.title = [document.activeElement === plot, wide, read].join("|");""")
        weights = [(19 / 21) ** (8 - step) for step in range(1, 9)]
        mean = sum(weight * (5 - step / 4) for step, weight in enumerate(weights, 1)) / sum(weights)
        self.assertIn(f"<title>true|false|seconds of training 0.08: {mean:.4f}</title>", page)
        self.assertGreaterEqual(page.count("<caption>"), 5)  # each picture's table was created
        self.assertRegex(page, r'<th scope="row">MFU, median</th><td>10\.2')

    def test_a_loss_that_falls_tenfold_is_read_on_a_logarithmic_axis(self):
        losses = [9, 4, 2.2, 1.5, 1.2, 1.05, 0.95, 0.9]
        self.report(write_run(self.folder / "falls", [start(), *(train(i, loss) for i, loss in enumerate(losses, 1))]))
        page = self.browse("--dump-dom", script="""
            const ticks = [...document.querySelector(".plot svg").querySelectorAll("text")].map((tick) => tick.textContent);
            document.title = ticks.join("|");""")
        ticks = page.split("<title>")[1].split("</title>")[0].split("|")
        self.assertEqual([tick for tick in ticks if tick in ("1", "2", "5")][:3], ["1", "2", "5"], ticks)

    def test_an_attack_shows_as_text(self):
        self.report(write_run(self.folder / "hostile", [start(dataset=ATTACK), train(1), train(2)], DATA_PATH=ATTACK, SEED={"a": 1}))
        page = self.browse("--dump-dom")
        self.assertIn("&lt;script&gt;alert(1)", page)
        self.assertNotIn("<script>alert", page)

    def test_pictures_at_both_widths_and_schemes(self):
        self.report(write_run(self.folder / "wide", [start(), *(train(step, 5 - step / 9) for step in range(1, 30))]))
        shots = set()
        for width in (400, 1280):
            for scheme in (0, 1):  # dark, light
                shot = self.folder / f"{width}-{scheme}.png"
                self.browse(f"--window-size={width},900", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
                shots.add(shot.read_bytes())
        self.assertEqual(len(shots), 4)  # all differ


class WatchTest(RunTest):
    def watch(self, run):
        done = self.run_gpt("watch", run, OUTPUT_DIR=None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_run_is_printed_once_where_there_is_no_terminal(self):
        events = self.train(output="watched", RUN_ID="watched", TRAINING_TIMING_BREAKDOWN="events")
        text = self.watch("watched")
        self.assertRegex(text, r"^watched: CPU, .*\(ended\)")
        self.assertIn("step 8 of 8", text)
        best = min(event["val_loss"] for event in events if event["event"] == "val")
        self.assertIn(f"best {best:.4f}", text)
        self.assertIn("backward ", text)
        self.assertGreaterEqual(text.count("\u2502"), 4)  # the curve

    def test_a_run_that_does_not_train_says_why_and_promises_no_time(self):
        events = [start(), *(train(step) for step in range(1, 41))]
        stop = dict(event="exit", code=75, step=40, text="stopped by SIGTERM after step 40")
        head = "(stopped at step 40, exit 75)"
        text = self.watch(write_run(self.folder / "stopped", [*events, stop], ITERATIONS=1000))
        self.assertIn(head, text.splitlines()[0])
        self.assertEqual(text.splitlines()[-1], stop["text"])
        self.assertNotIn("left ", text)
        # A killed run has no exit event.
        folder = write_run(self.folder / "killed", events, ITERATIONS=1000)
        self.assertIn("left ", self.watch(folder))
        then = time.time() - 200
        os.utime(folder / "metrics.jsonl", (then, then))
        text = self.watch(folder)
        self.assertIn("(training, no line for 3 min)", text.splitlines()[0])
        self.assertNotIn("left ", text)

    def test_a_terminal_follows_the_run_over_a_stop_to_its_end(self):
        with self.start_gpt(output="live", ITERATIONS=100000) as process:
            read_until(process, "step:2/")
            screen, terminal = pty.openpty()
            watch = self.start_gpt("watch", self.folder / "live", stdout=terminal)
            os.close(terminal)
            frames = self.frames(screen)
            try:
                self.seen(frames, b"(training)", b"left ")
            finally:
                process.terminate()
            process.communicate(timeout=60)
        self.seen(frames, b", exit 75)", b"stopped by SIGTERM")
        last = read_events(self.folder / "live")[-1]["step"] + 3
        self.train(output="live", ITERATIONS=last)
        frame = self.seen(frames, b"(ended)", f"step {last} of {last}".encode())
        self.assertNotIn(b"left ", frame)
        self.assertEqual(watch.wait(60), 0, watch.stderr.read())
        self.assertEqual(list(frames), [])
        watch.stderr.close()
        os.close(screen)

    def frames(self, screen):
        """Yields what a terminal shows at each redraw, until its other end is closed."""
        text = b""
        while True:
            try:
                text += os.read(screen, 1 << 16)
            except OSError:
                return
            *whole, text = text.split(b"\x1b[J")
            yield from whole

    def seen(self, frames, *parts):
        """Returns the next frame that contains these parts; fails after 60 frames."""
        for frame in itertools.islice(frames, 60):
            if all(part in frame for part in parts):
                return frame
        self.fail(f"no frame with {parts}")

    def test_a_wrong_run_is_one_line(self):
        for words, code, part in ((["nowhere"], 66, "nowhere: no such folder"), ([], 64, "expected one RUN, found 0"),
                                  (["--once"], 64, "found '--once'")):
            done = self.run_gpt("watch", *words)
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
