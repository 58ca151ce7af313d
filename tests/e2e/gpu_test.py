"""Whole runs on a GPU; skipped without one."""

import json
import re
import shutil
import signal
import statistics
import struct
import unittest

from harness import (BUILD, LAST_RECORD, OF_RANKS, RunTest, gpu_count, mpirun, read_until, saved_line, train_losses,
                     write_shard)


def safetensors_header(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


@unittest.skipUnless(gpu_count(), "no GPU")
class GpuTest(RunTest):
    small = OF_RANKS

    def train_on_gpu(self, **settings):
        return train_losses(self.train(DEVICE="cuda", **settings))

    def kernels_line(self):
        return next(line for line in self.lines if line.startswith("kernels:"))

    def test_bf16_learns_and_says_which_attention_it_uses(self):
        losses = self.train_on_gpu(NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=30)
        self.assertLess(losses[-1], losses[0] - 0.3)
        kernel = next(line for line in self.lines if line.startswith("attention_kernel:"))
        self.assertRegex(kernel, r"^attention_kernel:cudnn device:NVIDIA .* compute_dtype:BFloat16$")

    def test_batches_that_change_train_captured_as_launched(self):
        schedule = dict(DEVICE="cuda", DETERMINISTIC=1, NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=10,
                        TRAIN_BATCH_TOKENS="1024,2048@5", TRAIN_SEQ_LEN="16,32@3")
        captured = self.train(**schedule)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        self.assertEqual([event["step"] for event in captured if event["event"] == "batches"], [3, 5])
        launched = self.train(output="launched", GRAPHS=0, **schedule)
        self.assertEqual(train_losses(captured), train_losses(launched))
        # The largest micro-batch that fits, for each shape.
        measured = self.train(output="measured", GRAD_ACCUM_STEPS="auto", MEMORY_LIMIT_GB=4, **schedule)
        self.assertEqual([event["sequences"] for event in measured if event["event"] == "micro_batch"], [8, 4, 8])
        for found, expected in zip(train_losses(measured), train_losses(launched), strict=True):
            self.assertAlmostEqual(found, expected, delta=2e-3 * expected)

    def test_documents_train_captured_as_launched_and_as_on_the_cpu(self):
        # With a window in every second block.
        chosen = dict(LOADER_ORDER="documents", DETERMINISTIC=1, NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=8,
                      TRAIN_BATCH_TOKENS=4096, VAL_LOSS_EVERY=4, ATTENTION_WINDOW="0,20,0,5", EVAL_STRIDE=8)
        captured = self.train(DEVICE="cuda", **chosen)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        launched = self.train(output="launched", DEVICE="cuda", GRAPHS=0, **chosen)
        self.assertEqual(train_losses(captured), train_losses(launched))
        on_cpu = self.train(output="cpu", DEVICE="cpu", COMPUTE_DTYPE="fp32", **chosen)
        losses = [[event.get("train_loss", event.get("val_loss")) for event in events
                   if event["event"] in ("train", "val", "final")] for events in (captured, on_cpu)]
        for found, exact in zip(*losses, strict=True):
            self.assertAlmostEqual(found, exact, delta=5e-3 * exact)
        across = self.train(output="across", DEVICE="cuda", DOCUMENT_ATTENTION=0, **chosen)
        self.assertNotEqual(train_losses(across), train_losses(captured))
        fp8 = [train_losses(self.train(output=f"fp8-{graphs}", DEVICE="cuda", FP8=1, MODEL_DIM=128, GRAPHS=graphs,
                                       **chosen)) for graphs in (0, 1)]
        self.assertEqual(*fp8)

    def test_the_last_record_trains_captured_as_launched_and_as_on_the_cpu_in_both_depths(self):
        chosen = dict(LAST_RECORD, TRAIN_BATCH_TOKENS=4096, GRAD_ACCUM_STEPS=None, DETERMINISTIC=1, MODEL_DIM=128,
                      NUM_HEADS=2, NUM_KV_HEADS=1, ROPE_DIMS=16)
        del chosen["DEVICE"]
        captured = self.train(output="record-captured", DEVICE="cuda", **chosen)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        self.assertEqual(sum(line.startswith("layer_loop:enabled step:6 ") for line in self.lines), 1)
        launched = self.train(output="record-launched", DEVICE="cuda", GRAPHS=0, **chosen)
        self.assertEqual(train_losses(captured), train_losses(launched))
        on_cpu = self.train(output="record-cpu", DEVICE="cpu", COMPUTE_DTYPE="fp32", **chosen)
        fine = self.train(output="record-fp32", DEVICE="cuda", COMPUTE_DTYPE="fp32", **chosen)
        losses = [[event.get("train_loss", event.get("val_loss")) for event in events
                   if event["event"] in ("train", "val", "final")] for events in (captured, fine, on_cpu)]
        for half, found, exact in zip(*losses, strict=True):
            self.assertAlmostEqual(half, exact, delta=1e-2 * exact)
            self.assertAlmostEqual(found, exact, delta=1e-5 * exact)
        fp8 = [train_losses(self.train(output=f"record-fp8-{graphs}", DEVICE="cuda", FP8=1, GRAPHS=graphs, **chosen))
               for graphs in (0, 1)]
        self.assertEqual(*fp8)
        for found, exact in zip(fp8[0], train_losses(on_cpu), strict=True):
            self.assertAlmostEqual(found, exact, delta=3e-2 * exact)

    def test_steps_are_captured_again_for_batches_of_more_documents(self):
        folder = self.folder / "documents"
        folder.mkdir()
        shutil.copy(self.shards / "fineweb_val_000000.bin", folder)
        # Three steps with documents of 300 tokens, then of 4: a row of 512 has a capacity of 64 segments.
        tokens = [1 if (i % 300 if i < 12500 else i % 4) == 0 else 3 + i * 7919 % 500 for i in range(40000)]
        write_shard(folder / "fineweb_train_000000.bin", tokens)
        chosen = dict(DEVICE="cuda", DATA_PATH=folder, LOADER_ORDER="documents", DETERMINISTIC=1, NUM_HEADS=2,
                      NUM_KV_HEADS=1, TRAIN_BATCH_TOKENS=4096)
        captured = self.train(**chosen)
        self.assertRegex("\n".join(self.lines), r"segments: a batch has \d+, and room for 64 grows to 128\n")
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        self.assertEqual(train_losses(captured), train_losses(self.train(output="launched", GRAPHS=0, **chosen)))

    def test_steps_are_captured_again_for_longer_segments(self):
        # Attention's launches hold the longest segment of the batch that is captured.
        chosen = dict(DEVICE="cuda", LOADER_ORDER="documents", DETERMINISTIC=1, NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=8,
                      TRAIN_BATCH_TOKENS=4096, SEGMENT_LIMIT="8,256@4")
        captured = self.train(**chosen)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        self.assertEqual(train_losses(captured), train_losses(self.train(output="launched", GRAPHS=0, **chosen)))

    def test_skipping_ends_at_its_limit_and_no_model_that_is_not_finite_is_written(self):
        # Finite gradients produce weights that are not finite; results of later steps are read back one step late.
        endless = dict(DEVICE="cuda", MATRIX_LR=1e39, WARMUP_STEPS=0, output="nan")
        self.fails(70, "3 steps in a row", "NONFINITE_LIMIT=3", ON_NONFINITE="skip", NONFINITE_LIMIT=3, **endless)
        self.fails(70, "final weights are not finite", ON_NONFINITE="skip", ITERATIONS=2, **endless)
        self.assertFalse(any(self.out.glob("final_model*")))

    def test_fp16_learns_as_fp32_does_with_its_loss_scaled(self):
        wide = dict(NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=30)
        expected = self.train_on_gpu(output="fp32", COMPUTE_DTYPE="fp32", **wide)
        events = self.train(DEVICE="cuda", COMPUTE_DTYPE="fp16", **wide)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        for step, (found, exact) in enumerate(zip(train_losses(events), expected, strict=True), 1):
            self.assertAlmostEqual(found, exact, delta=3e-3 * exact, msg=f"step {step}")
        self.assertEqual({event["loss_scale"] for event in events if event["event"] == "train"}, {65536})
        kernel = next(line for line in self.lines if line.startswith("attention_kernel:"))
        self.assertRegex(kernel, r"^attention_kernel:cudnn device:NVIDIA .* compute_dtype:Half$")

    def test_fp8_learns_as_bf16_does(self):
        wide = dict(MODEL_DIM=128, NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=30)
        expected = self.train_on_gpu(output="bf16", **wide)
        qkv_bf16, mlp_bf16 = (re.search(rf" {part}:(\w+)", self.kernels_line())[1] for part in ("qkv", "mlp"))
        for parts in ("1", "mlp", "qkv,out"):
            events = self.train(output=parts, DEVICE="cuda", FP8=parts, **wide)
            if any("compute capability" in line for line in self.warnings):
                self.skipTest("no FP8 tensor cores")
            # With these settings the head is the token table.
            used = parts.replace("1", "mlp,qkv,out")
            self.assertIn("fp8:" + used, self.lines)
            qkv = qkv_bf16 + "_fp8" if "qkv" in used else qkv_bf16
            # Without Hopper's kernels the MLP in bf16 is ATen's.
            mlp = qkv_bf16 + "_fp8" if "mlp" in used else mlp_bf16
            self.assertIn(f"kernels: norm:cuda qkv:{qkv} out:cuda mlp:{mlp} head:cuda", self.lines)
            self.assertEqual([line for line in self.warnings if "on the head" in line], [])
            found = train_losses(events)
            self.assertNotEqual(found, expected, parts)
            for step, (loss, exact) in enumerate(zip(found, expected, strict=True), 1):
                self.assertAlmostEqual(loss, exact, delta=0.02 * exact, msg=f"FP8={parts} step {step}")

    def test_a_tied_head_of_8192_columns_trains_captured_as_launched_and_as_on_the_cpu(self):
        wide = dict(VOCAB_SIZE=8192, TOKENIZER_PATH="", MODEL_DIM=128, NUM_HEADS=2, NUM_KV_HEADS=1, ITERATIONS=12,
                    SMEAR_GATE=0, SMEAR_GATE_ENABLED=1, DETERMINISTIC=1)
        exact = train_losses(self.train(output="cpu", DEVICE="cpu", COMPUTE_DTYPE="fp32", **wide))
        # A head that is the token table is in FP8 only if it is named, and naming all parts equals FP8=1.
        for fp8, kernel, delta in (("head", "_fp8", 0.03), (0, "", 5e-3)):
            captured = self.train(output=f"captured{kernel}", DEVICE="cuda", FP8=fp8, **wide)
            if any("compute capability" in line for line in self.warnings):
                continue  # no FP8 tensor cores
            self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
            self.assertRegex(self.kernels_line(), f" head:(hopper|cuda){kernel}$")
            launched = self.train(output=f"launched{kernel}", DEVICE="cuda", FP8=fp8, GRAPHS=0, **wide)
            self.assertEqual(train_losses(captured), train_losses(launched))
            for step, (found, expected) in enumerate(zip(train_losses(captured), exact, strict=True), 1):
                self.assertAlmostEqual(found, expected, delta=delta * expected, msg=f"FP8={fp8} step {step}")

    def test_an_overflow_in_fp16_is_survived_captured_and_launched_bit_for_bit(self):
        chosen = dict(DEVICE="cuda", COMPUTE_DTYPE="fp16", DETERMINISTIC=1, NUM_HEADS=2, NUM_KV_HEADS=1, WARMUP_STEPS=0,
                      MTP_NUM_HEADS=1, MTP_LOSS_WEIGHT=30000, GRAD_CLIP_NORM=0.3, ITERATIONS=40)
        captured = self.train(**chosen)
        self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
        overflows = [event["step"] for event in captured if event["event"] == "skipped_step"]
        self.assertGreater(len(overflows), 0)
        self.assertLess(max(overflows), 35)
        scales = [(event["train_loss"], event["loss_scale"]) for event in captured if event["event"] == "train"]
        self.assertEqual(scales[-1][1], 65536 / 2 ** len(overflows))
        launched = self.train(output="launched", GRAPHS=0, **chosen)
        self.assertEqual([(event["train_loss"], event["loss_scale"]) for event in launched if event["event"] == "train"],
                         scales)

    def test_tf32_is_a_format_of_its_own(self):
        exact = self.train_on_gpu(output="fp32", COMPUTE_DTYPE="fp32", MODEL_DIM=256)
        losses = self.train_on_gpu(COMPUTE_DTYPE="tf32", MODEL_DIM=256)
        self.assertTrue(any(line.endswith("compute_dtype:TF32") for line in self.lines), self.lines)
        self.assertNotEqual(losses, exact)
        for found, expected in zip(losses, exact, strict=True):
            self.assertAlmostEqual(found, expected, delta=1e-3 * expected)

    def test_fp32_on_the_gpu_repeats_the_cpus_losses(self):
        on_gpu = self.train_on_gpu(COMPUTE_DTYPE="fp32")
        on_cpu = train_losses(self.train(output="cpu"))
        for step, (found, expected) in enumerate(zip(on_gpu, on_cpu), 1):
            self.assertAlmostEqual(found, expected, delta=2e-5 * expected, msg=f"step {step}")

    def test_prefetch_and_copy_stream_change_no_loss(self):
        everything = dict(NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1, ITERATIONS=60)
        expected = self.train_on_gpu(TRAIN_PREFETCH=0, TRAIN_COPY_STREAM=0, **everything)
        for name, chosen in (("prefetch", dict(TRAIN_COPY_STREAM=0)), ("copy", dict(TRAIN_PREFETCH=0)),
                             ("both", dict(TRAIN_PREFETCH_QUEUE=1)), ("deep", dict(TRAIN_PREFETCH_QUEUE=8))):
            self.assertEqual(self.train_on_gpu(output=name, **everything, **chosen), expected, name)

    def test_validation_scores_the_same_however_its_batches_come(self):
        def scores(**chosen):
            events = self.train(DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1, VAL_TOKENS=8192, **chosen)
            return [(event["val_loss"], event["val_bpb"]) for event in events if event["event"] == "val"]

        expected = scores(VAL_PREFETCH=0, VAL_COPY_STREAM=0)
        for name, chosen in (("all", {}), ("copy", dict(VAL_PREFETCH=0)), ("deep", dict(VAL_PREFETCH_QUEUE=7)),
                             ("device", dict(VAL_BYTECOUNT_DEVICE="cuda"))):
            self.assertEqual(scores(output=name, **chosen), expected, name)

    def test_the_phases_of_the_events_breakdown_are_the_step(self):
        timings = [event for event in self.train(DEVICE="cuda", TRAINING_TIMING_BREAKDOWN="events", ITERATIONS=30)
                   if event["event"] == "timing"]
        self.assertEqual(len(timings), 30)
        share = statistics.median(timing["phases_ms"] / timing["step_ms"] for timing in timings)
        self.assertGreaterEqual(share, 0.98)
        self.assertLessEqual(share, 1.001)
        self.assertGreater(min(timing["batch_h2d_ms"] for timing in timings), 0)

    def test_a_trace_has_an_arrow_from_each_read_over_the_gpus_copy(self):
        self.train(DEVICE="cuda", PROFILE=1, PROFILE_START=3, PROFILE_STEPS=2)
        events = json.loads((self.out / "trace_rank0.json").read_text())["traceEvents"]
        copies = {(e["pid"], e["tid"], e["ts"]) for e in events if e.get("cat") == "gpu_memcpy"}
        arrows = [e for e in events if e.get("cat") == "batch" and e["ph"] == "t"]
        self.assertGreaterEqual(len(arrows), 12)
        for arrow in arrows:
            self.assertIn((arrow["pid"], arrow["tid"], arrow["ts"]), copies)

    def test_own_kernels_do_not_change_the_losses(self):
        fused = self.train_on_gpu(COMPUTE_DTYPE="fp32")
        plain = self.train_on_gpu(output="plain", COMPUTE_DTYPE="fp32", FUSED=0)
        for found, expected in zip(fused, plain):
            self.assertAlmostEqual(found, expected, delta=1e-5 * expected)

    def test_sizes_that_are_padded_train_as_themselves_and_are_saved_as_themselves(self):
        odd = dict(VOCAB_SIZE=517, TOKENIZER_PATH="", MODEL_DIM=36, NUM_HEADS=2, NUM_KV_HEADS=1)
        pads = lambda: [line for line in self.lines if line.startswith("pad_")]
        shape = lambda name: safetensors_header(self.out / "final_model.safetensors")[name]["shape"]
        parameters = lambda: next(line for line in self.lines if line.startswith("model_params:"))

        padded = self.train_on_gpu(output="padded", COMPUTE_DTYPE="fp32", CHECKPOINT_EVERY=4, **odd)
        self.assertEqual(pads(), ["pad_vocab:517 rows padded to 576"])
        self.assertEqual(shape("tok_emb.weight"), [517, 36])
        counted, checkpoint = parameters(), self.out / "checkpoints" / "step-00000004"

        plain = self.train_on_gpu(output="plain", COMPUTE_DTYPE="fp32", PAD_VOCAB=0, **odd)
        self.assertEqual(pads(), [])
        self.assertEqual(parameters(), counted)
        for found, expected in zip(padded, plain):
            self.assertAlmostEqual(found, expected, delta=2e-5 * expected)

        resumed = train_losses(self.train(output="cpu", COMPUTE_DTYPE="fp32", RESUME=checkpoint, **odd))
        for found, expected in zip(resumed, plain[4:], strict=True):
            self.assertAlmostEqual(found, expected, delta=2e-5 * expected)

        untied = dict(odd, TIE_EMBEDDINGS=0, MTP_NUM_HEADS=1)
        full = self.train_on_gpu(output="full", COMPUTE_DTYPE="fp32", PAD_VOCAB=0, **untied)
        half = self.train_on_gpu(output="half", **untied)
        self.assertEqual(pads(), ["pad_vocab:517 rows padded to 576", "pad_model_dim:36 channels padded to 40",
                                  "pad_head_dim:18 channels padded to 24", "pad_mlp:108 channels padded to 112"])
        self.assertEqual(shape("lm_head.weight"), [517, 36])
        self.assertEqual(shape("qo_bank"), [8, 36, 36])
        for found, expected in zip(half[:4], full):
            self.assertAlmostEqual(found, expected, delta=0.02 * expected)

    def test_a_killed_and_a_stopped_run_go_on_bit_for_bit(self):
        chosen = dict(DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1, ITERATIONS=40, WARMDOWN_ITERS=30,
                      LATE_QAT_THRESHOLD=0.5, WARMUP_STEPS=3, LAWA_ENABLED=1, LAWA_FREQ=4, CHECKPOINT_EVERY=5)
        for name, precision in (("bf16", {}), ("fp32", dict(COMPUTE_DTYPE="fp32")),
                                ("fp16", dict(COMPUTE_DTYPE="fp16")), ("fp8", dict(FP8=1)),
                                ("launched", dict(GRAPHS=0))):
            name = f"stopped-{name}"
            expected = self.train(output=f"{name}-whole", **chosen, **precision)
            scores = [event["val_loss"] for event in expected if event["event"] in ("val", "final")]
            for step, number in ((12, signal.SIGKILL), (24, signal.SIGTERM)):
                with self.start_gpt(output=name, **chosen, **precision) as process:
                    read_until(process, f"step:{step}/", saved_line(self.out, step // 5 * 5))
                    process.send_signal(number)
                    _, errors = process.communicate()
                self.assertEqual(process.returncode, -9 if number == signal.SIGKILL else 75, errors)
            found = self.train(output=name, **chosen, **precision)
            self.assertEqual(train_losses(found), train_losses(expected), name)
            self.assertEqual([event["val_loss"] for event in found if event["event"] in ("val", "final")], scores)

    def test_captured_runs_are_launched_ones_bit_for_bit(self):
        # Clipping begins after the warm-up, and QAT in the middle of the run: the graphs are captured again. The
        # last validation batch is smaller than the others.
        chosen = dict(DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1, ITERATIONS=30, WARMDOWN_ITERS=20,
                      LATE_QAT_THRESHOLD=0.5, WARMUP_STEPS=3, GRAD_CLIP_NORM=0.5, VAL_LOSS_EVERY=5, VAL_BATCH_SIZE=1024,
                      VAL_TOKENS=2048 + 7 * 32)

        def numbers(events):
            return [(event["event"], event.get("train_loss"), event.get("val_loss")) for event in events]

        for name, options in (("bf16", {}), ("fp8", dict(FP8=1)), ("recompute", dict(FP8=1, ACTIVATION_RECOMPUTE="block"))):
            captured = numbers(self.train(output=name, **chosen, **options))
            self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])
            self.assertEqual(captured, numbers(self.train(output=f"{name}-launched", GRAPHS=0, **chosen, **options)))
            self.assertTrue(any(line.startswith("late_qat:enabled") for line in self.lines))

    def test_deterministic_runs_are_equal_bit_for_bit(self):
        wide = dict(NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1)
        self.assertEqual(self.train_on_gpu(**wide), self.train_on_gpu(output="again", **wide))

    def test_deterministic_runs_whose_heads_flash_cannot_serve_take_math_and_repeat(self):
        for name, chosen in (("fp32", dict(COMPUTE_DTYPE="fp32")), ("tf32", dict(COMPUTE_DTYPE="tf32")),
                             ("wide", dict(MODEL_DIM=528, NUM_HEADS=2, NUM_KV_HEADS=1))):
            with self.subTest(name):
                losses = self.train_on_gpu(output=name, DETERMINISTIC=1, **chosen)
                self.assertTrue(any(line.startswith("attention_kernel:math ") for line in self.lines), self.lines)
                self.assertEqual(self.train_on_gpu(output=name + "-again", DETERMINISTIC=1, **chosen), losses)

    def test_a_gpu_takes_at_most_four_threads(self):
        self.train_on_gpu(OMP_NUM_THREADS=None, ITERATIONS=1)
        line = next(line for line in self.lines if line.startswith("threads:"))
        threads, cores = map(int, re.match(r"threads:(\d+) of (\d+) cores, 1 rank on this machine$", line).groups())
        self.assertEqual(threads, min(4, cores))

    def test_memory_exhausted_says_how_much_was_asked_and_what_to_lower(self):
        self.fails(71, "parameters", "micro-batches of", "TRAIN_BATCH_TOKENS", "MODEL_DIM", DEVICE="cuda",
                   TRAIN_BATCH_TOKENS=1 << 30, VAL_BATCH_SIZE=1 << 20, TRAIN_SEQ_LEN=1024, VAL_TOKENS=0)

    def test_micro_batches_are_cut_to_fit_a_memory_limit_and_the_losses_stay(self):
        # A forward and backward pass over a whole micro-batch of 262,144 tokens needs about 2 GB for tensors.
        large = dict(COMPUTE_DTYPE="fp32", TRAIN_BATCH_TOKENS=8 << 18, VAL_BATCH_SIZE=8 << 18, ITERATIONS=4)
        limit = 1.5
        expected = self.train_on_gpu(output="unlimited", **large)
        for name, chosen in (("cut", {}), ("block", dict(ACTIVATION_RECOMPUTE="block")),
                             ("ttt", dict(TTT_ENABLED=1, TTT_CHUNK_TOKENS=256, TTT_BATCH_SEQS=6, EVAL_STRIDE=8))):
            events = self.train(DEVICE="cuda", output=name, MEMORY_LIMIT_GB=limit, GRAD_ACCUM_STEPS="auto", **large, **chosen)
            for step, (found, right) in enumerate(zip(train_losses(events), expected, strict=True), 1):
                self.assertAlmostEqual(found, right, delta=1e-5 * right, msg=f"{name}, step {step}")
            cut, = (event for event in events if event["event"] == "micro_batch")
            self.assertGreater(cut["parts"], 1)
            self.assertEqual(cut["sequences"] % cut["parts"], 0)
            self.assertLessEqual(cut["peak_bytes"], cut["usable_bytes"])
            self.assertLess(cut["usable_bytes"], limit * 2**30)
            self.assertTrue(any(re.match(rf"micro_batch:8192 sequences parts:{cut['parts']} peak:\d+ of \d+ MiB$", line)
                                for line in self.lines), self.lines)
            memory, = (event for event in events if event["event"] == "memory")
            self.assertLess(memory["peak_reserved_bytes"], limit * 2**30)
            self.assertEqual([line for line in self.warnings if "CUDA graphs" in line], [])

    def test_a_memory_limit_that_leaves_nothing_is_refused(self):
        self.fails(64, "MEMORY_LIMIT_GB=0.01", "CUDA context", DEVICE="cuda", MEMORY_LIMIT_GB=0.01)

    def test_ranks_that_would_compute_on_unlike_devices_do_not_begin(self):
        done = self.run_gpt(":", "-np", 1, "-x", "CUDA_VISIBLE_DEVICES=-1", BUILD / "train_gpt", through=mpirun(1),
                            DEVICE="auto")
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn("rank 0 has resolved DEVICE=cuda, rank 1 has resolved DEVICE=cpu", done.stderr)


if __name__ == "__main__":
    unittest.main()
