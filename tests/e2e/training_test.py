"""A run of train_gpt from tokens to files."""

import json
import math
import shutil
import unittest

from harness import VOCAB, RunTest, train_losses, write_shard
from safetensors.numpy import load_file

FEW_LAYERS = dict(NUM_LAYERS=2, VE_LAYERS="1")  # for promises that any model shows


class TrainingTest(RunTest):
    def test_learns_and_says_so_in_the_scripts_lines(self):
        events = self.train(ITERATIONS=24, VAL_LOSS_EVERY=12, GRAD_ACCUM_STEPS=None, TRAIN_BATCH_TOKENS=512, VAL_TOKENS=1024)
        losses = train_losses(events)
        self.assertEqual(len(losses), 24)
        self.assertLess(losses[-1], losses[0] - 0.5)
        scores = [event for event in events if event["event"] == "val"]
        self.assertEqual([event["step"] for event in scores], [0, 12, 24])
        self.assertLess(scores[-1]["val_bpb"], scores[0]["val_bpb"])
        text = "\n".join(self.lines)
        for pattern in (
            r"^val_bpb:enabled tokenizer_kind=sentencepiece tokenizer_path=\S+$",
            r"^train_loader:dataset:shards train_shards:\d+$",
            r"^val_loader:shards pattern=\S+fineweb_val_\*\.bin tokens:1024$",
            r"^model_params:\d+$",
            r"^mtp_num_heads:0 mtp_loss_weight:0\.2 mtp_params:0$",
            r"^XSA:last_1 active_layers:\[3\]$",
            r"^world_size:1 grad_accum_steps:8$",
            r"^attention_mode:gqa num_heads:4 num_kv_heads:2$",
            r"^kernels: norm:aten qkv:aten out:aten mlp:aten head:aten$",
            r"^tie_embeddings:True embed_lr:0\.035 head_lr:0\.0 matrix_lr:0\.025 scalar_lr:0\.025$",
            r"^train_batch_tokens:512 train_seq_len:32 iterations:24 warmup_steps:1 max_wallclock_seconds:0\.000$",
            r"^seed:1337$",
            r"^train_io:prefetch:True copy_stream:False$",
            r"^val_io:overlap:True prefetch:True copy_stream:False prefetch_queue:2 bytecount_device:cpu$",
            r"^warmup_step:1/1$",
            r"^step:0/24 val_loss:\d\.\d{4} val_bpb:\d\.\d{4} train_time:\d+ms step_avg:\d+\.\d\dms$",
            r"^step:1/24 train_loss:\d\.\d{4} train_time:\d+ms step_avg:\d+\.\d\dms$",
            r"^timing_train_loop_ms:\d+ms timing_val_total_ms:\d+ms$",
            r"^peak memory allocated: \d+ MiB reserved: \d+ MiB$",
            r"^ema:applying EMA weights$",
            r"^DIAGNOSTIC post_ema val_loss:\d\.\d{4} val_bpb:\d\.\d{4} eval_time:\d+ms$",
            r"^Serialized model: \d+ bytes$",
            r"^Code size: \d+ bytes$",
        ):
            self.assertRegex(text, r"(?m)" + pattern)

    def test_what_happens_reaches_the_metrics_too(self):
        events = self.train(ITERATIONS=2, WARMUP_STEPS=1, LATE_QAT_THRESHOLD=1.0, VAL_PROGRESS_LOG_EVERY=1)
        self.assertEqual(list(dict.fromkeys(event["event"] for event in events)), [
            "data", "start", "warmup_step", "val_progress", "val", "late_qat", "first_step", "train", "val_summary",
            "closing", "memory", "average", "final", "model", "exit"])
        start, model = events[1], events[-2]
        self.assertEqual(events[-1], {"event": "exit", "code": 0, "step": 2})
        self.assertIn(f"model_params:{start['model_params']}", self.lines)
        self.assertIn(f"Serialized model: {model['file_bytes']['final_model.pt']} bytes", self.lines)

    def test_log_file_repeats_the_lines_below_settings_and_versions(self):
        self.train(ITERATIONS=2)
        log = (self.out / "log.txt").read_text().splitlines()
        self.assertEqual(log[-len(self.lines):], self.lines)
        self.assertIn("MATRIX_LR=0.025", log)
        self.assertTrue(any(line.startswith("LibTorch 2.") for line in log))
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["settings"]["NUM_LAYERS"], 4)
        self.assertEqual(config["origins"]["NUM_LAYERS"], "environment")
        self.assertEqual(config["origins"]["MATRIX_LR"], "default")

    def test_same_seed_gives_the_same_losses_and_another_seed_others(self):
        first = self.losses_of_small()
        self.assertEqual(first, train_losses(self.train(output="again")))
        self.assertNotEqual(first, train_losses(self.train(output="other", SEED=7)))

    def test_prefetch_changes_no_loss(self):
        small = dict(GRAD_ACCUM_STEPS=None, **FEW_LAYERS)
        ahead = train_losses(self.train(TRAIN_PREFETCH_QUEUE=5, TRAIN_PREFETCH_WORKERS=3, **small))
        self.assertEqual(ahead, train_losses(self.train(output="plain", TRAIN_PREFETCH=0, **small)))

    def test_validation_scores_the_same_however_its_batches_are_read(self):
        def scores(**chosen):
            events = self.train(VAL_TOKENS=4096, VAL_BATCH_SIZE=1024, ITERATIONS=6, GRAD_ACCUM_STEPS=None, **FEW_LAYERS,
                                **chosen)
            return [(e["val_loss"], e["val_bpb"]) for e in events if e["event"] == "val"]

        expected = scores(VAL_PREFETCH=0)
        self.assertEqual(scores(output="ahead", VAL_PREFETCH_QUEUE=3, VAL_PROGRESS_LOG_EVERY=8), expected)
        progress = [line for line in self.lines if line.startswith("val_progress:")]
        self.assertRegex(progress[0], r"^val_progress:all batch 8/32 partial_mean_loss:\d\.\d{4} tokens_seen:1024$")

    def test_warm_up_leaves_no_trace(self):
        with_warm_up = self.train(WARMUP_STEPS=3, ITERATIONS=4)
        self.assertEqual(train_losses(with_warm_up), train_losses(self.train(output="b", WARMUP_STEPS=0, ITERATIONS=4)))

    def test_flag_beats_environment_beats_file(self):
        preset = self.folder / "preset.env"
        preset.write_text("ITERATIONS=3\nSEED=5\nTRAIN_LOG_EVERY=2\n")
        self.train("--config", preset, "--iterations", 2, ITERATIONS=4, SEED=6, TRAIN_LOG_EVERY=None)
        settings = json.loads((self.out / "config.json").read_text())["settings"]
        self.assertEqual((settings["ITERATIONS"], settings["SEED"], settings["TRAIN_LOG_EVERY"]), (2, 6, 2))

    def test_default_output_is_a_folder_of_the_run_id_with_a_linked_log(self):
        done = self.run_gpt(OUTPUT_DIR=None, RUN_ID="named", ITERATIONS=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "logs/named/final_model.pt").exists())
        self.assertEqual((self.folder / "logs/named.txt").read_text(),
                         (self.folder / "logs/named/log.txt").read_text())
        done = self.run_gpt(OUTPUT_DIR=None, RUN_ID=None, ITERATIONS=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = [path for path in (self.folder / "logs").iterdir() if path.is_dir() and path.name != "named"]
        self.assertRegex(drawn[0].name, r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

    def test_wallclock_cap_stops_early_with_a_last_validation(self):
        events = self.train(ITERATIONS=1000000, MAX_WALLCLOCK_SECONDS=0.5, VAL_LOSS_EVERY=0)
        last = [event for event in events if event["event"] == "val"][-1]["step"]
        self.assertTrue(any(line.startswith("stopping_early: wallclock_cap train_time:") for line in self.lines))
        self.assertEqual([event["step"] for event in events if event["event"] == "stopping_early"], [last])
        self.assertEqual(len(train_losses(events)), last)
        times = [event["train_time_ms"] for event in events if event["event"] == "train"]
        self.assertGreaterEqual(times[-1], 500)
        self.assertLess(times[-2], 500)

    def test_the_learning_rate_falls_over_a_share_of_the_time_before_the_reserve(self):
        events = self.train(ITERATIONS=1000000, MAX_WALLCLOCK_SECONDS=60, GPTQ_RESERVE_SECONDS=59.5, WARMDOWN_FRAC=0.5,
                            MIN_LR=0.25, VAL_LOSS_EVERY=0)
        steps = [event for event in events if event["event"] == "train"]
        ends = [event["train_time_ms"] for event in steps]
        self.assertGreaterEqual(ends[-1], 500)
        self.assertLess(ends[-2], 500)
        for begin, step in zip([0] + ends, steps):
            self.assertAlmostEqual(step["lr_scale"], min(1, max((1 - begin / 500) / 0.5, 0.25)), delta=1e-4)

    def test_a_run_that_the_clock_scheduled_is_repeated_by_its_trace(self):
        capped = dict(ITERATIONS=1000000, WARMDOWN_ITERS=20, LATE_QAT_THRESHOLD=0.5, SWA_EVERY=3, VAL_LOSS_EVERY=0,
                      **FEW_LAYERS)
        expected = self.train(output="clock", MAX_WALLCLOCK_SECONDS=0.5, **capped)
        model = (self.out / "final_model.safetensors").read_bytes()
        trace = self.out / "metrics.jsonl"
        found = self.train(output="trace", LR_TRACE=trace, MAX_WALLCLOCK_SECONDS=0.25, **capped)
        for name in ("train_loss", "lr_scale"):
            self.assertEqual([event[name] for event in found if event["event"] == "train"],
                             [event[name] for event in expected if event["event"] == "train"])
        for event in ("late_qat", "swa"):
            self.assertEqual([e["step"] for e in found if e["event"] == event],
                             [e["step"] for e in expected if e["event"] == event])
        self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)
        # ITERATIONS may end the run before the trace does.
        self.assertEqual(len(train_losses(self.train(output="part", LR_TRACE=trace, **dict(capped, ITERATIONS=3)))), 3)

    def test_batches_and_rows_change_where_their_schedules_say(self):
        schedule = dict(ITERATIONS=8, TRAIN_BATCH_TOKENS="1024,2048@0.5", TRAIN_SEQ_LEN="16,32@2", VAL_LOSS_EVERY=0,
                        WARMDOWN_ITERS=0, **FEW_LAYERS)
        constant = dict(schedule, ITERATIONS=3, TRAIN_BATCH_TOKENS=1024, TRAIN_SEQ_LEN=16, EVAL_SEQ_LEN=32)
        for order in ("stream", "strided"):
            events = self.train(LOADER_ORDER=order, **schedule)
            steps = [event for event in events if event["event"] == "train"]
            self.assertEqual([event["seq_len"] for event in steps], 2 * [16] + 6 * [32])
            self.assertEqual([event["tokens"] for event in steps],
                             [1024, 2048, 3072, 4096, 6144, 8192, 10240, 12288])
            self.assertEqual([(event["step"], event["tokens_per_step"], event["seq_len"]) for event in events
                              if event["event"] == "batches"], [(2, 1024, 32), (4, 2048, 32)])
            self.assertIn("batches:changed step:4 tokens_per_step:2048 train_seq_len:32", self.lines)
            self.assertEqual(next(event for event in events if event["event"] == "data")["planned_tokens"], 12288)
            if order == "stream":
                # A micro-batch reads one token more than it trains on.
                self.assertEqual([event["token_offset"] for event in steps],
                                 [event["tokens"] + self.small["GRAD_ACCUM_STEPS"] * event["step"] for event in steps])
            before = train_losses(self.train(output="constant", LOADER_ORDER=order, **constant))
            found = train_losses(events)
            self.assertEqual(found[:2], before[:2])
            self.assertNotEqual(found[2], before[2])

    def test_batches_that_the_clock_changed_change_again_by_the_runs_trace(self):
        clock = dict(ITERATIONS=1000000, WARMDOWN_ITERS=20, TRAIN_BATCH_TOKENS="1024,2048@0.4", VAL_LOSS_EVERY=0,
                     **FEW_LAYERS)
        expected = self.train(output="clock", MAX_WALLCLOCK_SECONDS=0.5, **clock)
        changed = [(event["step"], event["tokens_per_step"]) for event in expected if event["event"] == "batches"]
        self.assertEqual([tokens for _, tokens in changed], [2048])
        times = [event["train_time_ms"] for event in expected if event["event"] == "train"]
        self.assertGreaterEqual(times[changed[0][0] - 1], 200)
        self.assertLess(times[changed[0][0] - 2], 200)
        trace = self.out / "metrics.jsonl"
        found = self.train(output="trace", LR_TRACE=trace, **clock)
        self.assertEqual(train_losses(found), train_losses(expected))
        self.fails(78, "LR_TRACE", "its step 1 has 1024 tokens in rows of 32", "TRAIN_BATCH_TOKENS=512,2048@0.4",
                   LR_TRACE=trace, **dict(clock, TRAIN_BATCH_TOKENS="512,2048@0.4"))

    def test_a_trace_that_is_none_is_refused_in_one_line(self):
        (self.folder / "cut.jsonl").write_text('{"event":"train","step":1,"train_loss":6,"train_time_ms":1,"lr_scale":1}\n'
                                               '{"event":"train","step":3,"train_loss":6,"train_time_ms":1,"lr_scale":1}\n')
        (self.folder / "empty.jsonl").write_text('{"event":"closing"}\n')
        self.fails(65, "LR_TRACE", "cut.jsonl:2", "expected the lr_scale of step 2", LR_TRACE=self.folder / "cut.jsonl")
        self.fails(65, "LR_TRACE", "no train event", LR_TRACE=self.folder / "empty.jsonl")
        self.fails(66, "none.jsonl", LR_TRACE=self.folder / "none.jsonl")

    def test_says_the_passes_over_the_data_and_warns_of_the_fifth(self):
        steps, tokens = 12, 1250
        few = self.folder / "few"
        few.mkdir()
        write_shard(few / "fineweb_train_000000.bin", [token % VOCAB for token in range(tokens)])
        shutil.copy(self.shards / "fineweb_val_000000.bin", few)
        events = self.train(ranks=2, DATA_PATH=few, ITERATIONS=steps, TRAIN_BATCH_TOKENS=512, **FEW_LAYERS)
        self.assertEqual([event["train_tokens"] for event in events if event["event"] == "data"], [tokens])
        self.assertIn(f"train_tokens:{tokens} passes_planned:{steps * 512 / tokens:.2f}", self.lines)
        passes = {event["step"]: event["pass"] for event in events if event["event"] == "train"}
        offsets = {event["step"]: event["token_offset"] for event in events if event["event"] == "train"}
        self.assertEqual(passes, {step: -(-offset // tokens) for step, offset in offsets.items()})
        fifth = min(step for step, number in passes.items() if number == 5)
        self.assertEqual([warning for warning in self.warnings if " pass " in warning],
                         [f"WARN rank=0: step {fifth} begins pass 5 over the training tokens: val_loss may rise; "
                          "give more text, or train for fewer steps"])
        losses = {event["step"]: event["val_loss"] for event in events if event["event"] == "val"}
        best = min(losses, key=losses.get)
        self.assertIn(f"best_val_loss:{losses[best]:.4f} step:{best} last_val_loss:{losses[steps]:.4f} step:{steps}",
                      self.lines)

    def test_each_switch_off_and_on_still_learns(self):
        switches = [
            dict(TIE_EMBEDDINGS=0, MTP_NUM_HEADS=2, UNET_SKIPS=0, SMEAR_GATE=0),
            dict(DTG_ENABLED=1, GATED_ATTENTION=1, VALUE_RESIDUAL=1, BIGRAM_VOCAB_SIZE=0, VE_ENABLED=0),
            dict(VALUE_RESIDUAL="blend", RESID_MIX="scalar", LAYER_SCALES=0, QK_GAIN_INIT=0, ROPE_DIMS=0),
            dict(QAT_ENABLED=1, MLP_NEGATIVE_SLOPE=0, LN_SCALE=0, XSA_LAST_N=0, GRAD_CLIP_NORM=0),
            dict(LOADER_ORDER="strided", COMPUTE_DTYPE="bf16", LAWA_ENABLED=1, LAWA_FREQ=2, LAWA_K=3,
                 ITERATIONS=8),
            dict(EMA_ENABLED=0, SWA_EVERY=1, LATE_QAT_THRESHOLD=0.9, ITERATIONS=8),
            dict(NUM_LAYERS=1, VE_LAYERS="0"),
        ]
        for number, chosen in enumerate(switches):
            with self.subTest(chosen):
                losses = train_losses(self.train(output=f"switch{number}", **{"ITERATIONS": 4, **chosen}))
                self.assertTrue(all(math.isfinite(loss) for loss in losses), losses)
                self.assertLess(losses[-1], losses[0])

    def test_late_qat_and_swa_announce_their_start(self):
        events = self.train(LATE_QAT_THRESHOLD=0.6, EMA_ENABLED=0, SWA_EVERY=1, WARMDOWN_ITERS=10)
        names = [event["event"] for event in events]
        self.assertEqual([names.count("late_qat"), names.count("swa")], [1, 1])
        self.assertEqual(sum(line.startswith("late_qat:enabled step:") for line in self.lines), 1)
        self.assertEqual(sum(line.startswith("swa:start step:") for line in self.lines), 1)

    def test_final_model_starts_another_run_from_either_format(self):
        last = [e for e in self.train(ITERATIONS=2, EMA_ENABLED=0, SWA_ENABLED=0) if e["event"] == "val"][-1]
        for name in ("final_model.safetensors", "final_model.pt"):
            events = self.train(output=name, INIT_FROM=self.folder / "out" / name, ITERATIONS=1)
            first = next(event for event in events if event["event"] == "val")
            self.assertEqual(first["val_loss"], last["val_loss"])

    def test_control_patterns_say_what_adamw_steps(self):
        usual = ("attn_scale,mlp_scale,resid_mix,q_gain,skip_weight,smear,dtg_gate,ve_layer_scales,ve_shared.scale,"
                 "attn_gate,vr_lambda")
        weights = {}
        for patterns in (usual, usual + ",qo_bank,qo_bonk", "qo_bank"):
            self.train(CONTROL_TENSOR_NAME_PATTERNS=patterns, MATRIX_LR=0, ITERATIONS=2, EMA_ENABLED=0, SWA_ENABLED=0)
            weights[patterns] = load_file(self.out / "final_model.safetensors")
            notices = [line for line in self.warnings if "CONTROL_TENSOR_NAME_PATTERNS" in line]
            self.assertEqual(len(notices), int(patterns != usual), self.warnings)
            if "qo_bonk" in patterns:
                self.assertIn("no parameter's name contains qo_bonk", notices[0])
            elif patterns != usual:
                self.assertIn("leave out skip_weights, blocks.0.resid_mix, blocks.1.resid_mix", notices[0])
        # Muon's learning rate is 0, so it moves nothing.
        by_muon, by_adamw, few = weights.values()
        self.assertTrue((by_muon["kv_bank"] == by_adamw["kv_bank"]).all())
        self.assertFalse((by_muon["qo_bank"] == by_adamw["qo_bank"]).all())
        self.assertTrue((few["skip_weights"] == 1).all())
        self.assertFalse((by_muon["skip_weights"] == 1).all())

    def test_fp8_without_a_gpu_for_it_is_said_once_and_changes_nothing(self):
        expected = train_losses(self.train(DEVICE="auto", ITERATIONS=1, FUSED=0))
        self.assertEqual(train_losses(self.train(DEVICE="auto", ITERATIONS=1, FUSED=0, FP8=1)), expected)
        warnings = [line for line in self.warnings if line.startswith("WARN ")]
        self.assertEqual(sum("FP8=1 needs a GPU of compute capability 8.9" in line for line in warnings), 1, warnings)

    def test_memory_settings_change_no_loss_on_a_cpu(self):
        expected = self.losses_of_small()
        for mode in ("light", "block"):
            self.assertEqual(train_losses(self.train(output=mode, ACTIVATION_RECOMPUTE=mode)), expected, mode)
        steps = dict(TRAIN_BATCH_TOKENS=512, ITERATIONS=4)
        expected = train_losses(self.train(GRAD_ACCUM_STEPS=None, **steps))
        events = self.train(output="auto", GRAD_ACCUM_STEPS="auto", MEMORY_LIMIT_GB=0.5, **steps)
        self.assertEqual(train_losses(events), expected)
        self.assertIn("micro_batch:2 sequences parts:1 (not measured on a CPU)", self.lines)
        self.assertIn({"event": "micro_batch", "sequences": 2, "parts": 1}, events)
        self.assertEqual(sum("MEMORY_LIMIT_GB=0.5 has no effect" in line for line in self.warnings), 1, self.warnings)
        self.assertIn('"GRAD_ACCUM_STEPS": "auto"', (self.out / "config.json").read_text())

    def test_progress_line_is_for_the_terminal_alone(self):
        shown = self.run_in_terminal(ITERATIONS=3)
        self.assertRegex(shown, r"step 3/3  loss \d\.\d{4}  \d+ tokens/s  ETA 0:00:00")
        self.assertNotIn("tokens/s", (self.out / "log.txt").read_text())


if __name__ == "__main__":
    unittest.main()
