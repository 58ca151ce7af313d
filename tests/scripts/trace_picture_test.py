"""Draws a small trace made by hand, and reads from the picture what lies where."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "trace_picture.py"
HOST, WORKER, STREAM, COPIES, COMM = (100, 100), (100, 101), (0, 7), (0, 20), (0, 33)
LEFT, RIGHT = 165, 1185
START = 4_000_000  # µs: a trace does not begin at 0


def slice_of(track, category, name, begin, end):
    times = {"ts": START + 1000 * begin, "dur": 1000 * (end - begin)}
    return {"ph": "X", "cat": category, "name": name, "pid": track[0], "tid": track[1], **times}


def phase(name, begin, end):
    return slice_of(HOST, "user_annotation", name, begin, end)


def point(kind, track, at):
    place = {"pid": track[0], "tid": track[1], "ts": START + 1000 * at}
    return {"ph": kind, "cat": "batch", "name": "batch", "id": 3, **place}


CPU = [
    {"ph": "M", "name": "thread_name", "pid": 100, "tid": 101, "args": {"name": "prefetch worker <0>"}},
    slice_of(WORKER, "prefetch", "read", 0, 2),
    phase("train_step", 10, 50),
    phase("batch", 10, 12),
    phase("forward", 12, 20),
    phase("backward", 20, 45),
    phase("optimizer", 45, 50),
    slice_of(HOST, "cpu_op", "aten::mm", 13, 14),
    phase("train_step", 60, 100),
    phase("forward", 60, 100),
]
GPU = [
    slice_of(COPIES, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 10, 11),
    slice_of(STREAM, "kernel", "nvjet_hsh_256x128", 15, 20),
    slice_of(STREAM, "kernel", "nvjet_hsh_128x128", 20.01, 30),
    slice_of(STREAM, "kernel", "vectorized_elementwise_kernel", 30, 40),
    slice_of(COMM, "kernel", "ncclDevKernel_AllReduce_Sum_f32", 35, 45),
    point("s", WORKER, 1),
    point("t", COPIES, 10.5),
    point("f", HOST, 16),
]


class TracePicture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name, "trace.json")
        self.svg = pathlib.Path(folder.name, "trace.svg")

    def run_script(self, *arguments):
        command = [sys.executable, SCRIPT, self.trace, self.svg, *arguments]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    def picture(self, events, *arguments):
        self.trace.write_text(json.dumps({"traceEvents": events}))
        done = self.run_script(*arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        root = ElementTree.parse(self.svg).getroot()
        self.texts = [element.text for element in root.findall(".//{*}text")]
        self.paths = [element.attrib for element in root.findall(".//{*}path")]

    def paths_of(self, name):
        return [path["d"] for path in self.paths if path.get("class") == name]

    def spans_of(self, kind):
        """(x, x) of every block of a kind."""
        found = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", "".join(self.paths_of(kind)))
        return [(float(x), float(x) + float(width)) for x, width in found]

    def lanes(self):
        return [text for text in self.texts if re.match("prefetch|reader|training|GPU .* stream", text)]

    def refused(self, status, *arguments):
        done = self.run_script(*arguments)
        self.assertEqual(status, done.returncode)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn(f"ERROR exit={status}: ", done.stderr)
        return done.stderr

    def test_lanes_of_a_gpu_trace(self):
        self.picture(CPU + GPU)
        streams = ["GPU 0 stream 7", "GPU 0 stream 20", "GPU 0 stream 33"]
        self.assertEqual(["prefetch worker <0>", "training thread", *streams], self.lanes())
        for kind in ("read", "batch", "backward", "optimizer", "other", "copy", "collective"):
            self.assertEqual(1, len(self.spans_of(kind)), kind)
        self.assertEqual(2, len(self.spans_of("forward")))
        self.assertIn("copy to the GPU", self.texts)

    def test_kernels_closer_than_a_pixel_are_one_block(self):
        self.picture(CPU + GPU)
        ((begin, end),) = self.spans_of("matrix")
        per_ms = (RIGHT - LEFT) / 100
        self.assertAlmostEqual(LEFT + 15 * per_ms, begin, delta=0.1)
        self.assertAlmostEqual(LEFT + 30 * per_ms, end, delta=0.1)

    def test_cpu_trace_has_no_gpu_lanes(self):
        self.picture(CPU)
        self.assertEqual(["prefetch worker <0>", "training thread"], self.lanes())
        self.assertEqual([], self.paths_of("matrix") + self.paths_of("arrow"))
        self.assertNotIn("copy to the GPU", self.texts)

    def test_arrows_follow_a_batch(self):
        self.picture(CPU + GPU)
        self.assertEqual(2, len(self.paths_of("arrow")))
        from_read = [float(x) for x in re.findall(r"([\d.]+) \d+", self.paths_of("arrow")[0])]
        self.assertAlmostEqual(self.spans_of("read")[0][1], from_read[0], delta=0.1)
        self.assertAlmostEqual(self.spans_of("copy")[0][0], from_read[-1], delta=0.1)

    def test_arrow_without_a_lane_is_left_out(self):
        self.picture(CPU + [point("s", (5, 5), 1), point("f", HOST, 16)])
        self.assertEqual([], self.paths_of("arrow"))

    def test_window(self):
        self.picture(CPU + GPU, "--from-ms", "46", "--to-ms", "70")
        self.assertEqual(["training thread"], self.lanes())
        self.assertEqual(LEFT, self.spans_of("optimizer")[0][0])
        self.assertAlmostEqual(RIGHT, self.spans_of("forward")[0][1], delta=0.1)

    def test_step(self):
        self.picture(CPU + GPU, "--step", "2")
        self.assertIn("trace.json, 60.00 to 100.00 ms", self.texts)
        self.assertEqual([(LEFT, RIGHT)], self.spans_of("forward"))
        self.assertIn("has 2 train_step", self.refused(64, "--step", "3"))

    def test_many_kernels_stay_small(self):
        names = ("gemm", "elementwise", "nccl")
        kernels = [
            slice_of((0, stream), "kernel", names[i * i % 3], i / 100, i / 100 + 0.006)
            for stream in range(8)
            for i in range(5000)
        ]
        self.picture(kernels)
        self.assertLess(self.svg.stat().st_size, 150_000)

    def test_window_without_events(self):
        self.picture(CPU)
        self.assertIn("0 to 100.00 ms", self.refused(64, "--from-ms", "200", "--to-ms", "300"))

    def test_unreadable_files(self):
        self.assertIn("cannot read", self.refused(66))
        for content in ("", "{", "[]", "{}", '{"traceEvents": [1]}', '{"traceEvents": []}', "[" * 100_000):
            self.trace.write_text(content)
            self.assertIn(str(self.trace), self.refused(65))
        self.assertFalse(self.svg.exists())

    def test_events_that_are_none(self):
        broken = ({"ts": "soon"}, {"ts": float("nan")}, {"ts": float("inf")}, {"pid": []}, {"name": None})
        for change in broken:
            event = slice_of(STREAM, "kernel", "gemm", 0, 1) | change
            self.trace.write_text(json.dumps({"traceEvents": [event]}))
            self.refused(65)

    def test_picture_that_cannot_be_written(self):
        self.trace.write_text(json.dumps({"traceEvents": CPU}))
        self.svg.mkdir()
        self.refused(73)


if __name__ == "__main__":
    unittest.main()
