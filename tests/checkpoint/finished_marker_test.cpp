#include "checkpoint/checkpoint_folder.h"
#include "tests/files/testing.h"

namespace tg::test {
namespace {

TEST(FinishedMarker, IsWrittenReadAndRemoved) {
  const TempDir folder;
  const std::string root = folder / "checkpoints";
  EXPECT_FALSE(read_finished(root));
  remove_finished(root);
  write_finished(root, {100, 20000, 599.1});
  const auto finished = read_finished(root);
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->step, 100);
  EXPECT_EQ(finished->iterations, 20000);
  EXPECT_EQ(finished->max_wallclock_seconds, 599.1);
  remove_finished(root);
  EXPECT_FALSE(read_finished(root));
}

TEST(FinishedMarker, ADamagedOneIsBadData) {
  const TempDir folder;
  for (const char* text : {"", "{}", "[1]", R"({"step": 1, "iterations": "2"})"}) {
    write_file(folder / "finished.json", text);
    expect_error([&] { read_finished(folder.path()); }, ExitCode::bad_data, "finished.json");
  }
}

}  // namespace
}  // namespace tg::test
