"""DETERMINISTIC=1 on GPUs: every preset repeats bit by bit on one rank and on several, also after a kill."""

import os
import signal
import unittest

from harness import children_named, gpu_count, read_events, read_until, train_losses
from presets import PRESETS, SHORT, PresetTest, data_of, preset_file

WORLDS = [world for world in (2, 4, 8) if world <= gpu_count()]  # of several GPUs


class RepeatTest(PresetTest):
    def assert_presets_repeat(self, world):
        starts = [[(preset, f"{preset}.{world}.{start}") for start in range(2)] for preset in PRESETS]
        processes = self.start_all(world, [run for runs in starts for run in runs])
        for at, runs in enumerate(starts):
            with self.subTest(preset=runs[0][0], world=world):
                for process in processes[2 * at:2 * at + 2]:
                    self.end_of(process)
                first, second = (self.folder / output for _, output in runs)
                losses = train_losses(read_events(first))
                self.assertEqual(len(losses), SHORT["ITERATIONS"])
                self.assertEqual(train_losses(read_events(second)), losses)
                weights = [(out / "final_model.safetensors").read_bytes() for out in (first, second)]
                self.assertTrue(weights[0] == weights[1], "other weights")

    @unittest.skipIf(gpu_count() < 1, "no GPU")
    def test_every_preset_gives_the_same_bits_again_on_one_gpu(self):
        self.assert_presets_repeat(1)

    @unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
    def test_every_preset_gives_the_same_bits_again_on_several_gpus(self):
        for world in WORLDS:
            self.assert_presets_repeat(world)

    @unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
    def test_a_killed_rank_and_a_killed_launcher_leave_no_trace_in_the_losses(self):
        chosen = dict(ITERATIONS=40, CHECKPOINT_EVERY=5)
        for world in WORLDS:
            self.end_of(self.start_preset("record_1061", world, f"whole.{world}", **chosen))
            losses = train_losses(read_events(self.out))
            for victim in ("train_gpt", "mpirun") if world == WORLDS[-1] else ("train_gpt",):
                with self.subTest(killed=victim, world=world):
                    killed = self.launch("-n", world, "--restarts", 1, "--config", preset_file("record_1061"),
                                         output=f"{victim}.{world}", **data_of("record_1061"), **chosen)
                    read_until(killed, "checkpoint:")
                    read_until(killed, "step:14/")
                    os.kill(children_named(victim, killed.pid)[-1], signal.SIGKILL)
                    self.end_of(killed)
                    events = read_events(self.out)
                    self.assertEqual(sum(event["event"] == "resume" for event in events), 1)
                    self.assertEqual(train_losses(events), losses)


if __name__ == "__main__":
    unittest.main()
