"""A failing run ends soon, with one error line and its exit code."""

import concurrent.futures
import os
import pathlib
import signal
import time
import unittest

from harness import RunTest

INTERNAL, MEMORY = 70, 71


def injecting(call, path=None):
    name = call.split(":")[0]
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *(["-P", str(path)] if path else []),
            "-e", f"trace={name}", "-e", f"inject={call}"]


class EndingsTest(RunTest):
    def test_an_error_does_not_wait_for_a_thread_that_reads_dead_storage(self):
        shard = sorted(self.shards.glob("fineweb_train_*"))[0]
        # Two steps take sixteen reads; the prefetching reader hangs in one of the third step's reads.
        hung = injecting("pread64:delay_enter=600000000:when=20+", path=shard)
        process = self.start_gpt(through=hung, MATRIX_LR=1e38, SCALAR_LR=1e38, TIED_EMBED_LR=1e38, GRAD_CLIP_NORM=0,
                                 WARMUP_STEPS=0, TRAIN_PREFETCH_QUEUE=8, VAL_LOSS_EVERY=0, GRAD_ACCUM_STEPS=None)
        try:
            lines = concurrent.futures.ThreadPoolExecutor().submit(process.stderr.readline)
            self.assertRegex(lines.result(timeout=60), r"^ERROR exit=70 rank=0 .*must be finite")
            pid, = self.children(process.pid)
            # strace keeps the delayed thread; all other threads have exited.
            until = time.monotonic() + 30
            while (state := self.state_of(pid)) != "Z":
                self.assertLess(time.monotonic(), until, f"still in state {state}")
                time.sleep(0.1)
        finally:
            for pid in [*self.children(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.communicate()

    def children(self, pid):
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def state_of(self, pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def test_every_thread_that_cannot_be_started_is_an_error_with_its_line(self):
        # Two readers, so that other reads fail when the first failure is reported.
        settings = dict(TRAIN_PREFETCH_WORKERS=2, ITERATIONS=1, WARMUP_STEPS=0, VAL_LOSS_EVERY=0)
        failed = 0
        for number in range(1, 20):
            done = self.run_gpt(through=injecting(f"clone3:error=EAGAIN:when={number}+"), **settings)
            if done.returncode == 0:
                break
            failed += 1
            with self.subTest(thread=number):
                self.assertEqual(done.returncode, MEMORY, done.stderr)
                lines = done.stderr.splitlines()
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertRegex(lines[0], r"^ERROR exit=71 rank=0\b.*cannot start a thread .*ulimit -u")
        self.assertGreaterEqual(failed, 2)


if __name__ == "__main__":
    unittest.main()
