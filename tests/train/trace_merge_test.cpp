#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/trace.h"

namespace tg {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kProcess = 7, kHost = 70, kWorker = 71, kBase = 5'000'000;

Json kineto(const Json& events) {
  return {{"baseTimeNanoseconds", kBase}, {"traceEvents", events}};
}

Span span(const char* name, std::int64_t thread, std::int64_t begin_us, std::int64_t end_us,
          std::int64_t batch) {
  return {name, thread, kBase + 1000 * begin_us, kBase + 1000 * end_us, batch};
}

std::vector<Json> of_category(const Json& trace, const std::string& category) {
  std::vector<Json> found;
  for (const auto& event : trace["traceEvents"])
    if (event.value("cat", "") == category) found.push_back(event);
  return found;
}

const std::vector<Span> kJourney = {span("read", kWorker, 10, 20, 3),
                                    span("copy", kHost, 30, 34, 3),
                                    span("forward", kHost, 40, 60, 3)};

TEST(TraceMerge, ReadsBecomeSlicesOnTheWorkersOwnTrack) {
  auto trace = kineto(Json::array());
  merge_spans(trace, kJourney, kProcess);
  const auto reads = of_category(trace, "prefetch");
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0]["tid"], kWorker);
  EXPECT_EQ(reads[0]["ts"], 10.0);
  EXPECT_EQ(reads[0]["dur"], 10.0);
  EXPECT_EQ(reads[0]["args"]["batch"], 3);
  const auto& names = trace["traceEvents"];
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](const Json& event) {
    return event.value("name", "") == "thread_name" && event["tid"] == kWorker &&
           event["args"]["name"] == "prefetch worker 0";
  }));
}

TEST(TraceMerge, AnArrowLeadsFromTheReadOverTheGpusCopyToTheForwardPass) {
  auto trace = kineto({{{"cat", "cuda_runtime"},
                        {"name", "cudaMemcpyAsync"},
                        {"pid", kProcess},
                        {"tid", kHost},
                        {"ts", 31.5},
                        {"args", {{"correlation", 9}}}},
                       {{"cat", "gpu_memcpy"},
                        {"name", "Memcpy HtoD (Pinned -> Device)"},
                        {"pid", 0},
                        {"tid", 20},
                        {"ts", 36.0},
                        {"dur", 2.0},
                        {"args", {{"correlation", 9}}}}});
  merge_spans(trace, kJourney, kProcess);
  const auto arrow = of_category(trace, "batch");
  ASSERT_EQ(arrow.size(), 3u);
  const auto expect_part = [&](std::size_t part, const char* phase, std::int64_t process,
                               std::int64_t thread, double at_us) {
    EXPECT_EQ(arrow[part]["ph"], phase);
    EXPECT_EQ(arrow[part]["id"], 3);
    EXPECT_EQ(arrow[part]["pid"], process);
    EXPECT_EQ(arrow[part]["tid"], thread);
    EXPECT_EQ(arrow[part]["ts"], at_us);
  };
  expect_part(0, "s", kProcess, kWorker, 15);
  expect_part(1, "t", 0, 20, 36);
  expect_part(2, "f", kProcess, kHost, 50);
}

TEST(TraceMerge, WithoutAGpuTheArrowTouchesTheHostsCopy) {
  auto trace = kineto(Json::array());
  merge_spans(trace, kJourney, kProcess);
  const auto arrow = of_category(trace, "batch");
  ASSERT_EQ(arrow.size(), 3u);
  EXPECT_EQ(arrow[1]["tid"], kHost);
  EXPECT_EQ(arrow[1]["ts"], 32.0);
}

TEST(TraceMerge, BatchesCutOffByTheEndsOfATraceHaveNoArrow) {
  auto trace = kineto(Json::array());
  merge_spans(trace, {span("read", kWorker, 10, 20, 5), span("forward", kHost, 1, 9, 4)}, kProcess);
  EXPECT_TRUE(of_category(trace, "batch").empty());
}

}  // namespace
}  // namespace tg
