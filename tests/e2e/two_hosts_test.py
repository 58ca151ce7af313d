"""Two hosts, each a network namespace, connected by a virtual cable, train together."""

import os
import subprocess
import unittest

from harness import OF_RANKS, RunTest, end, read_events, train_losses

NAMES = [f"tg{os.getpid()}h{number}" for number in (0, 1)]
ADDRESSES = ["10.99.0.1", "10.99.0.2"]
UNAVAILABLE = 69


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True)


def connect_hosts():
    """Creates the namespaces; raises an error if this user or kernel cannot."""
    for name in NAMES:
        ip("netns", "add", name)
    ip("-n", NAMES[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", NAMES[1])
    for name, address in zip(NAMES, ADDRESSES):
        ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "cable", "up")


def remove_hosts():
    for name in NAMES:
        try:
            ip("netns", "delete", name)
        except (OSError, subprocess.CalledProcessError):
            pass  # it was never created


class TwoHostsTest(RunTest):
    small = OF_RANKS

    def setUp(self):
        self.addCleanup(remove_hosts)
        try:
            connect_hosts()
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespaces here: {error}")

    def start_both(self, of_each, **settings):
        # Namespaces have their own ports, so the default port is free.
        return [self.start_gpt(through=["ip", "netns", "exec", name], MASTER_ADDR=ADDRESSES[0], COMM_TIMEOUT_S=6,
                               **settings, **variables) for name, variables in zip(NAMES, of_each)]

    def train_on_both(self, of_each, **settings):
        processes = self.start_both(of_each, **settings)
        try:
            for process in processes:
                _, errors = process.communicate(timeout=40)
                self.assertEqual(process.returncode, 0, errors)
        finally:
            for process in processes:
                end(process)
                process.communicate()
        return train_losses(read_events(self.out))

    def test_they_give_the_losses_of_one(self):
        expected = train_losses(self.train(output="one", ITERATIONS=4))
        for name, both, of_each in (
            ("torchrun", dict(WORLD_SIZE=2, LOCAL_WORLD_SIZE=1, LOCAL_RANK=0), [dict(RANK=0), dict(RANK=1)]),
            ("by hand", dict(WORLD_SIZE=2, LOCAL_RANK=0), [dict(RANK=0), dict(RANK=1)]),
            ("srun", dict(SLURM_NTASKS=2, SLURM_LOCALID=0, SLURM_NNODES=2, SLURM_JOB_ID=1),
             [dict(SLURM_PROCID=0), dict(SLURM_PROCID=1)]),
            ("PMI", dict(PMI_SIZE=2), [dict(PMI_RANK=0), dict(PMI_RANK=1)]),
        ):
            with self.subTest(name):
                losses = self.train_on_both(of_each, output=name.replace(" ", "-"), ITERATIONS=4, **both)
                self.assertEqual(len(losses), len(expected))
                for one, two in zip(expected, losses):
                    self.assertAlmostEqual(one, two, delta=1e-5 * one)

    def test_a_cut_cable_ends_both(self):
        processes = self.start_both([dict(RANK=0), dict(RANK=1)], WORLD_SIZE=2, LOCAL_WORLD_SIZE=1, LOCAL_RANK=0,
                                    ITERATIONS=1000000, VAL_LOSS_EVERY=0)
        try:
            while not (line := processes[0].stdout.readline()).startswith("step:5/"):
                self.assertNotEqual(line, "")
            ip("-n", NAMES[0], "link", "set", "cable", "down")
            for process in processes:
                _, errors = process.communicate(timeout=100)
                self.assertEqual(process.returncode, UNAVAILABLE, errors)
                self.assertRegex(errors, r"(?m)^ERROR exit=69 rank=\d step=\d+: ")
        finally:
            for process in processes:
                process.kill()
                process.communicate()


if __name__ == "__main__":
    unittest.main()
