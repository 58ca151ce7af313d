#include "report/run_follower.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/files/testing.h"

namespace tg {
namespace {

const std::string kStart = R"({"event":"start","tokens_per_step":1024,"world_size":1})"
                           "\n";

std::string train(int step) {
  return R"({"event":"train","step":)" + std::to_string(step) +
         R"(,"train_loss":4,"lr_scale":1,"train_time_ms":)" + std::to_string(10 * step) + "}\n";
}

class RunFollowerTest : public testing::Test {
 protected:
  void write_config() {
    test::write_file(path_.config, R"({"settings":{"RUN_ID":"one"},"origins":{},"versions":"1",)"
                                   R"("device":"CPU"})");
  }
  void append(const std::string& text) { std::ofstream(path_.metrics, std::ios::app) << text; }
  std::size_t steps() const { return run_.record()["train"]["rows"]; }

  const test::TempDir folder_;
  const RunPath path_ = {folder_ / "metrics.jsonl", folder_ / "config.json"};
  RunFollower run_{path_};
};

TEST_F(RunFollowerTest, WaitsForFilesAndForTheFirstEvent) {
  EXPECT_FALSE(run_.follow());
  EXPECT_THROW(run_.require_begun(), Error);
  append("");
  EXPECT_FALSE(run_.follow());
  write_config();
  run_.follow();
  EXPECT_FALSE(run_.begun());
  append(kStart);
  EXPECT_TRUE(run_.follow());
  EXPECT_TRUE(run_.begun());
  EXPECT_EQ(run_.name(), "one");
  EXPECT_FALSE(run_.error());
  run_.require_begun();
}

TEST_F(RunFollowerTest, ALineThatIsHalfThereIsReadWhenItIsAllThere) {
  write_config();
  const auto second = train(2);
  append(kStart + train(1) + second.substr(0, 20));
  EXPECT_TRUE(run_.follow());
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(read_run(path_)["train"]["rows"], 1) << "nor is it an error for who reads once";
  EXPECT_FALSE(run_.follow());
  append(second.substr(20));
  EXPECT_TRUE(run_.follow());
  EXPECT_EQ(steps(), 2u);
  EXPECT_FALSE(run_.error());
}

TEST_F(RunFollowerTest, AFaultIsToldUntilTheFileIsReplaced) {
  write_config();
  append(kStart + "hello\n");
  EXPECT_TRUE(run_.follow());
  ASSERT_TRUE(run_.error());
  EXPECT_EQ(run_.error()->exit_code(), ExitCode::bad_data);
  EXPECT_FALSE(run_.follow());
  test::write_file(folder_ / "new", kStart + train(1));
  std::filesystem::rename(folder_ / "new", path_.metrics);
  EXPECT_TRUE(run_.follow());
  EXPECT_FALSE(run_.error());
  EXPECT_EQ(steps(), 1u);
}

TEST_F(RunFollowerTest, TheStatusKnowsHowLongNobodyHasWritten) {
  write_config();
  append(kStart + train(1));
  run_.follow();
  EXPECT_EQ(run_.record()["status"]["kind"], "training");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(path_.metrics, now - std::chrono::seconds(200));
  EXPECT_EQ(run_.record()["status"]["text"], "training, no line for 3 min");
  append(R"({"event":"exit","code":75,"step":1,"text":"stopped by SIGTERM"})"
         "\n");
  run_.follow();
  const auto record = run_.record();
  EXPECT_EQ(record["status"]["text"], "stopped at step 1, exit 75");
  EXPECT_EQ(record["exit"]["text"], "stopped by SIGTERM");
  append(train(2));
  run_.follow();
  EXPECT_FALSE(run_.record().contains("exit"));
}

}  // namespace
}  // namespace tg
