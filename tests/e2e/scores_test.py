"""The end of a run: its artifact, and the scores of the weights read back from it."""

import compileall
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import unittest
import zlib

import torch
from safetensors.torch import load_file

from harness import SOURCE, TWO_LAYERS, RunTest

EVERYTHING = dict(ARTIFACT="int6", EVAL_STRIDE=8, TTT_ENABLED=1, TTT_CHUNK_TOKENS=256, TTT_LR=0.05,
                  TRAIN_BATCH_TOKENS=1024, VAL_TOKENS=2048, VAL_BATCH_SIZE=2048)
NAMES = ["DIAGNOSTIC_post_ema", "final_int6_roundtrip_exact", "final_int6_sliding_window_exact", "legal_ttt_exact"]


def without_time(member):
    member.mtime = 0  # a checkout's mtime has nanoseconds, which add some per cent to a packed tree
    return member


def finals(events):
    return {event["name"]: event for event in events if event["event"] == "final"}


class ScoresTest(RunTest):
    small = TWO_LAYERS
    scored = None

    def train_with_everything(self):
        """Trains with EVERYTHING once and returns the events; self.out and self.lines belong to that run."""
        if ScoresTest.scored is None:
            ScoresTest.scored = self.train(output="everything", **EVERYTHING), self.out, self.lines, self.warnings
        events, self.out, self.lines, self.warnings = ScoresTest.scored
        return events

    def test_every_line_of_the_end_comes_in_order_and_is_an_event(self):
        events = self.train_with_everything()
        self.assertEqual(self.warnings, [])
        begins = ["DIAGNOSTIC post_ema ", "Serialized model: ", "Code size: ", "Serialized model int6+lzma: ",
                  "Total submission size int6+lzma: ", "artifact_time quantize:", "final_int6_roundtrip ",
                  "final_int6_roundtrip_exact ", "final_int6_sliding_window ", "final_int6_sliding_window_exact ",
                  "ttt_sliding:start chunks=8 ", "ttt_sliding:params unfrozen=", "  ttt_chunk [1/8] bpb=",
                  "  ttt_chunk [8/8] bpb=", "ttt_sliding:done val_loss=", "legal_ttt ", "legal_ttt_exact "]
        end = [line for line in self.lines if line.startswith(tuple(begins))]
        self.assertEqual([next(b for b in begins if line.startswith(b)) for line in end], begins)
        scores = finals(events)
        self.assertEqual(list(scores), NAMES)
        exact = next(line for line in end if line.startswith("legal_ttt_exact "))
        score = scores["legal_ttt_exact"]
        self.assertEqual(exact, f"legal_ttt_exact val_loss:{score['val_loss']:.8f} val_bpb:{score['val_bpb']:.8f}")
        self.assertEqual(scores["final_int6_sliding_window_exact"]["stride"], 8)
        # More context and training on scored tokens both reduce the loss.
        losses = [scores[name]["val_loss"] for name in NAMES[1:]]
        self.assertGreater(losses[0], losses[1])
        self.assertGreater(losses[1], losses[2])

    def test_pythons_torch_reads_the_artifact(self):
        artifact = next(event for event in self.train_with_everything() if event["event"] == "artifact")
        packed = (self.out / "final_model.int6.ptz").read_bytes()
        self.assertEqual(artifact["bytes"], len(packed))
        self.assertEqual(artifact["total_bytes"], len(packed) + artifact["record_bytes"] + artifact["code_bytes"])
        stored = torch.load(io.BytesIO(lzma.decompress(packed)), weights_only=True)
        weights = torch.load(self.out / "final_model.pt", weights_only=True)
        query = stored["w"]["blocks.1.attn.c_q.weight"].float()
        torch.testing.assert_close(query, weights["qo_bank"][1], rtol=1e-3, atol=1e-4)  # stored as fp16

    def test_python_opens_the_final_model_and_we_open_pythons(self):
        self.train_with_everything()
        weights = torch.load(self.out / "final_model.pt", weights_only=True)
        same = load_file(self.out / "final_model.safetensors")
        self.assertEqual(weights.keys(), same.keys())
        for name, weight in same.items():
            self.assertTrue(torch.equal(weights[name], weight), name)
        python_model = self.folder / "python.pt"
        torch.save(weights, python_model)
        self.train(output="from_python", INIT_FROM=python_model, ITERATIONS=1)

    def test_the_code_counts_as_a_tar_xz_of_the_sources(self):
        self.train_with_everything()
        size = int(next(line for line in self.lines if line.startswith("Code size: ")).split()[2])
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.GNU_FORMAT) as archive:
            for file in sorted(path for path in (SOURCE / "src").rglob("*") if path.is_file()):
                if file.parent.name != "__pycache__":
                    archive.add(file, file.relative_to(SOURCE), filter=without_time)
        self.assertAlmostEqual(size / len(packed.getvalue()), 1, delta=0.01)

    def test_the_code_size_does_not_count_pythons_bytecode(self):
        tree, header = self.folder / "tree", self.folder / "build_info.h"
        shutil.copytree(SOURCE / "src" / "commands", tree / "src" / "commands")

        def code_size():
            subprocess.run(["cmake", f"-DSOURCE_DIR={tree}", f"-DOUTPUT={header}", "-P", SOURCE / "cmake/BuildInfo.cmake"],
                           check=True)
            return int(re.search(r"kCodeBytes = (\d+);", header.read_text())[1])
        before = code_size()
        self.assertGreater(before, 0)
        compileall.compile_dir(tree, quiet=1)
        self.assertTrue(list(tree.rglob("__pycache__/*.pyc")))
        self.assertEqual(code_size(), before)

    def test_int8_zlib_has_its_own_file_and_lines(self):
        events = self.train(ARTIFACT="int8_zlib")
        self.assertRegex("\n".join(self.lines),
                         r"(?m)^Serialized model int8\+zlib: \d+ bytes \(payload:\d+ raw_torch:\d+ payload_ratio:\d\.\d\dx\)$")
        self.assertIn("final_int8_zlib_roundtrip_exact", finals(events))
        stored = torch.load(io.BytesIO(zlib.decompress((self.out / "final_model.int8.ptz").read_bytes())),
                            weights_only=True)
        self.assertEqual(stored["__quant_format__"], "int8_clean_per_row_v1")

    def test_two_ranks_and_three_score_as_one(self):
        settings = dict(EVERYTHING, ITERATIONS=2, VAL_TOKENS=1024, TTT_EPOCHS=1, TTT_BATCH_SEQS=8, GRAD_ACCUM_STEPS=None)
        alone = finals(self.train(**settings))
        for ranks in (2, 3):
            shared = finals(self.train(ranks=ranks, output=f"ranks{ranks}", **settings))
            self.assertEqual(list(shared), NAMES)
            # Test-time training averages the ranks' gradients: with three ranks, over unequal numbers of tokens.
            compared = NAMES if ranks == 2 else NAMES[:3]
            for name in compared:
                self.assertAlmostEqual(shared[name]["val_loss"], alone[name]["val_loss"], delta=2e-5, msg=name)

    def test_a_later_run_numbers_the_artifact_aside(self):
        self.train_with_everything()
        shutil.copytree(self.out, self.folder / "out")
        self.train(output="out", ITERATIONS=1)
        self.assertFalse((self.out / "final_model.int6.ptz").exists())
        self.assertTrue((self.out / "final_model.1.int6.ptz").exists())


if __name__ == "__main__":
    unittest.main()
