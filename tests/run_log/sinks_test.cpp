#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "run_log/log_sink.h"
#include "run_log/metrics_sink.h"
#include "run_log/tensorboard_sink.h"
#include "run_log/token_watch.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

// What MetricsSink writes of these events, each line parsed.
std::vector<nlohmann::json> metrics_of(const std::vector<RunEvent>& events) {
  const test::TempDir dir;
  const auto path = dir / "metrics.jsonl";
  MetricsSink sink(path);
  for (const auto& event : events) std::visit(sink, event);
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// What LogSink writes to standard output and standard error.
std::string log_of(const RunEvent& event, const Settings& settings = {}) {
  LogSink sink(settings, /*world_size=*/1);
  turn_off_progress();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::visit(sink, event);
  return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
}

TEST(MetricsSink, WritesTheKnownEventsWithTheirKeys) {
  const auto lines = metrics_of({StepEnded{.step = 3,
                                           .loss = 6.25,
                                           .lr_scale = 0.5,
                                           .grad_norm = 1.5,
                                           .elapsed_ms = 70,
                                           .tokens = 3072,
                                           .seq_len = 512,
                                           .flops_per_token = 2e6,
                                           .token_offset = 1024,
                                           .pass = {}},
                                 Validated{3, 6.5, 4.25, 70, 8}});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(
      lines[0].dump(),
      R"({"event":"train","flops_per_token":2000000.0,"grad_norm":1.5,"lr_scale":0.5,"seq_len":512,)"
      R"("step":3,"token_offset":1024,"tokens":3072,"train_loss":6.25,"train_time_ms":70.0})");
  EXPECT_EQ(lines[1].dump(),
            R"({"event":"val","step":3,"val_bpb":4.25,"val_loss":6.5,"val_time_ms":8.0})");
}

TEST(MetricsSink, EveryEventHasAName) {
  const auto lines = metrics_of({RunStarted{},        WarmUpStepEnded{},
                                 FirstStepEnded{},    StepEnded{},
                                 StepTimed{},         StepSkipped{},
                                 BatchesChanged{},    LateQatStarted{},
                                 SwaStarted{},        SettingWarning{},
                                 TokensStalled{},     TokensRepeated{},
                                 Validated{},         ValidationProgressed{},
                                 ValidationSummary{}, TraceWritten{},
                                 StoppedEarly{},      LoopEnded{},
                                 MemoryMeasured{},    AverageApplied{},
                                 FinalScored{},       ModelWritten{},
                                 ArtifactWritten{},   RanksJoined{},
                                 Resumed{},           CheckpointSaved{},
                                 CheckpointFailed{},  SizePadded{},
                                 MicroBatchCut{},     StageWarmUpBegan{},
                                 StageStarted{},      HessiansCollected{},
                                 WeightsQuantized{},  RunEnded{}});
  std::vector<std::string> names;
  for (const auto& line : lines) names.push_back(line.at("event"));
  EXPECT_EQ(names, (std::vector<std::string>{"data",         "start",
                                             "warmup_step",  "first_step",
                                             "train",        "timing",
                                             "skipped_step", "batches",
                                             "late_qat",     "swa",
                                             "warning",      "warning",
                                             "warning",      "val",
                                             "val_progress", "val_summary",
                                             "trace",        "stopping_early",
                                             "closing",      "memory",
                                             "average",      "final",
                                             "model",        "artifact",
                                             "ranks",        "resume",
                                             "checkpoint",   "warning",
                                             "padding",      "micro_batch",
                                             "stage_warmup", "stage",
                                             "hessians",     "quantized_weights",
                                             "exit"}));
  EXPECT_EQ(names.size(), std::variant_size_v<RunEvent> + 1);  // the start has two lines
}

TEST(MetricsSink, NothingFollowsTheEndButAnError) {
  const auto lines =
      metrics_of({RunEnded{.exit_code = 0, .step = 8, .error = ""}, StepEnded{},
                  RunEnded{.exit_code = 69, .step = {}, .error = "a peer was lost"}});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].dump(), R"({"code":0,"event":"exit","step":8})");
  EXPECT_EQ(lines[1].dump(), R"({"code":69,"event":"exit","text":"a peer was lost"})");
}

TEST(MetricsSink, ANumberThatIsNotFiniteIsNull) {
  const auto lines = metrics_of({StepSkipped{4, std::nan(""), INFINITY, 1}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].at("train_loss").is_null());
  EXPECT_TRUE(lines[0].at("grad_norm").is_null());
  EXPECT_EQ(lines[0].at("skipped_steps"), 1);
}

TEST(LogSink, AStallIsTextWithItsNumbers) {
  const auto text = log_of(TokensStalled{1, 2, 3001, 3200});
  EXPECT_NE(
      text.find("steps 1 to 2: training waited for tokens, data_wait_ms:3001 of 3200 (93.8%)"),
      std::string::npos)
      << text;
}

TEST(LogSink, APaddedSizeIsALine) {
  EXPECT_EQ(log_of(SizePadded{"vocab", 50257, 50304}), "pad_vocab:50257 rows padded to 50304\n");
  EXPECT_EQ(log_of(SizePadded{"head_dim", 50, 56}), "pad_head_dim:50 channels padded to 56\n");
}

TEST(LogSink, ASkippedStepSaysHowManyThereWere) {
  EXPECT_NE(log_of(StepSkipped{4, INFINITY, 1, 7}).find("update skipped (7 so far)"),
            std::string::npos);
}

TEST(LogSink, StepsBeyondTheTenthComeAsTrainLogEverySays) {
  Settings settings;
  settings.run.train_log_every = 4;
  for (const std::int64_t step : {1, 10, 12}) {
    const StepEnded event{
        .step = step, .loss = 6, .lr_scale = 1, .elapsed_ms = 50, .token_offset = {}, .pass = {}};
    EXPECT_EQ(log_of(event, settings).find(fmt::format("step:{}/", step)), 0u);
  }
  EXPECT_EQ(log_of(StepEnded{.step = 11,
                             .loss = 6,
                             .lr_scale = 1,
                             .elapsed_ms = 50,
                             .token_offset = {},
                             .pass = {}},
                   settings),
            "");
}

TEST(LogSink, ALineBehindTheTenthStepSaysHowLongTrainingTakesFromThere) {
  const auto log = [](std::int64_t first, double step_ms, double cap_s, std::int64_t iterations) {
    Settings settings;
    settings.run.iterations = iterations;
    settings.run.max_wallclock_seconds = cap_s;
    settings.run.train_log_every = 0;
    LogSink sink(settings, /*world_size=*/1);
    turn_off_progress();
    testing::internal::CaptureStdout();
    for (std::int64_t i = 0; i < 20; ++i) {
      // The first step takes long.
      sink(StepEnded{.step = first + i,
                     .loss = 6,
                     .lr_scale = 1,
                     .elapsed_ms = 5000 + static_cast<double>(i) * step_ms,
                     .token_offset = {},
                     .pass = {}});
    }
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(log(1, 1000, 0, 4000),
            "training_left:1:06:30 at 1000 ms a step, for at most 3990 steps (ITERATIONS=4000)\n");
  EXPECT_EQ(log(1001, 100, 0, 2010),
            "training_left:0:01:40 at 100 ms a step, for at most 1000 steps (ITERATIONS=2010)\n");
  EXPECT_EQ(log(1, 1000, 100, 4000),
            "training_left:0:01:26 at 1000 ms a step, for at most 3990 steps (ITERATIONS=4000)\n");
  EXPECT_EQ(log(1, 1000, 0, 60), "");
}

TEST(LogSink, TheUtilizationOfSeveralGpusIsThatOfAllTheirPeaks) {
  const Settings settings;
  RunStarted started;
  started.peak_flops = 5e9;
  LogSink sink(settings, /*world_size=*/2);
  testing::internal::CaptureStdout();
  sink(started);
  testing::internal::GetCapturedStdout();
  // A step of 1 s uses the peak of one GPU.
  const StepEnded event{.step = 1,
                        .loss = 6,
                        .lr_scale = 1,
                        .elapsed_ms = 1000,
                        .tokens = 1000,
                        .seq_len = 512,
                        .flops_per_token = 5e6,
                        .token_offset = {},
                        .pass = {}};
  EXPECT_NE(sink.progress_text(event).find("  MFU 50.0%"), std::string::npos);
}

// The numbers of that tag in a folder's event file, in order.
std::vector<float> scalars_of(const std::filesystem::path& folder, const std::string& tag) {
  const auto path = std::filesystem::directory_iterator(folder)->path();
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::string before = tag + '\x15';  // the field simple_value, four bytes
  std::vector<float> numbers;
  for (auto at = bytes.find(before); at != std::string::npos; at = bytes.find(before, at + 1))
    std::memcpy(&numbers.emplace_back(), bytes.data() + at + before.size(), sizeof(float));
  return numbers;
}

TEST(TensorboardSink, TheUtilizationCountsTheOperationsOfTheStepsOwnRows) {
  const test::TempDir dir;
  TensorboardSink sink(dir / "events", Settings(), {});
  MetricsSink metrics(dir / "metrics.jsonl",
                      [&](const nlohmann::json& event) { sink.write(event); });
  RunStarted started;
  started.world_size = 2;
  started.peak_flops = 1e6;
  metrics(started);
  // Every step trains on 100 tokens in 100 ms, the last two on longer rows.
  for (const std::int64_t step : {1, 2, 3, 4}) {
    metrics(StepEnded{.step = step,
                      .lr_scale = 1,
                      .elapsed_ms = 100.0 * static_cast<double>(step),
                      .tokens = 100 * step,
                      .seq_len = step < 3 ? 16 : 32,
                      .flops_per_token = step < 3 ? 1000.0 : 1500.0,
                      .token_offset = {},
                      .pass = {}});
  }
  EXPECT_EQ(scalars_of(dir / "events", "train/mfu"), (std::vector<float>{0.5F, 0.75F, 0.75F}));
}

TEST(RepetitionWatch, WarnsOnceAtTheFifthPass) {
  RepetitionWatch watch;
  EXPECT_FALSE(watch.after_step(1, {}));
  EXPECT_FALSE(watch.after_step(2, 4));
  const auto repeated = watch.after_step(3, 5);
  ASSERT_TRUE(repeated);
  EXPECT_EQ(repeated->step, 3);
  EXPECT_EQ(repeated->pass, 5);
  EXPECT_FALSE(watch.after_step(4, 6));
}

TEST(LogSink, WarnsOfAnArtifactThatExceedsTheLimitWithItsCode) {
  ArtifactWritten event{.path = "out/final_model.int6.ptz", .format = Artifact::int6};
  event.code_bytes = 400'000;
  event.bytes = 15'600'000;
  EXPECT_EQ(log_of(event).find("more than the limit"), std::string::npos);
  event.bytes += 7;
  const auto text = log_of(event);
  EXPECT_NE(text.find("Total submission size int6+lzma: 16000007 bytes"), std::string::npos)
      << text;
  EXPECT_NE(text.find("with the code 16000007 bytes, 7 more than the limit of 16000000"),
            std::string::npos)
      << text;
}

TEST(LogSink, NamesWhatGptqStoredWithoutTheNumbersOfBlocks) {
  const WeightsQuantized event{
      .names = {{"gptq (int6)",
                 {"blocks.0.mlp.fc.weight", "blocks.10.mlp.fc.weight", "blocks.0.attn.c_q.weight"}},
                {"passthrough (float16)", {"blocks", "smear_lambda"}}}};
  EXPECT_EQ(log_of(event),
            "Quantized weights:\n"
            "  gptq (int6): blocks.attn.c_q.weight, blocks.mlp.fc.weight\n"
            "  passthrough (float16): blocks, smear_lambda\n");
  EXPECT_EQ(log_of(HessiansCollected{.count = 67, .ms = 4720}),
            "GPTQ:collected 67 Hessians in 4.7s\n");
  EXPECT_EQ(log_of(FinalScored{.line_name = "diagnostic quantized",
                               .name = "quantized",
                               .loss = 2.34727563,
                               .bpb = 1.07254371,
                               .eval_ms = 9321.4,
                               .digits = 8}),
            "diagnostic quantized val_loss:2.34727563 val_bpb:1.07254371 eval_time:9321ms\n");
  ArtifactWritten written;
  written.format = Artifact::gptq;
  written.bytes = 7;
  EXPECT_NE(log_of(written).find("Serialized model quantized+brotli: 7 bytes\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tg
