#include "store/finished_marker.h"

#include "tests/store/store_testing.h"

namespace tg {
namespace {

TEST(FinishedMarker, IsWrittenReadAndRemoved) {
  const TempFolder folder;
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
  const TempFolder folder;
  for (const char* text : {"", "{}", "[1]", R"({"step": 1, "iterations": "2"})"}) {
    put_file(folder / "finished.json", text);
    expect_error([&] { read_finished(folder.path()); }, ExitCode::bad_data, "finished.json");
  }
}

}  // namespace
}  // namespace tg
