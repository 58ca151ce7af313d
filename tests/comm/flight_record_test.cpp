#include "comm/flight_record.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "tests/files/testing.h"

namespace tg {
namespace {

TEST(FlightRecord, IsSavedOnce) {
  const test::TempDir folder;
  int asked = 0;
  FlightRecord record(folder / "deep/traces", 3, [&] { return std::to_string(++asked); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(record.save(), folder / "deep/traces/rank_3");
  EXPECT_EQ(test::read_file(folder / "deep/traces/rank_3"), "1");
}

TEST(FlightRecord, NamesNoFileThatItCouldNotWrite) {
  const test::TempDir folder;
  test::write_file(folder / "taken", "");
  EXPECT_EQ(FlightRecord(folder / "taken", 0, [] { return "1"; }).save(), "");
  FlightRecord failing(folder / "traces", 0, []() -> std::string { throw std::runtime_error(""); });
  EXPECT_EQ(failing.save(), "");
}

TEST(FlightRecord, LibTorchsWatchdogSavesItThere) {
  const test::TempDir folder;
  FlightRecord(folder / "traces", 2, [] { return ""; }).save_for_watchdog();
  auto& writer = c10d::DebugInfoWriter::getWriter(2);
  EXPECT_EQ(writer.getWriterTarget(), folder / "traces/rank_2");
  writer.write("its own");
  EXPECT_EQ(test::read_file(folder / "traces/rank_2"), "its own");
}

}  // namespace
}  // namespace tg
