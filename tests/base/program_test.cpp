#include "base/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "base/process_exit.h"
#include "tests/base/run_alone.h"

namespace tg {
namespace {

using test::run_alone;

struct Hangs {
  ~Hangs() { std::this_thread::sleep_for(std::chrono::hours(1)); }
};

// GTest runs suites of this name first, before there are other threads, which a fork would lose.
class ProgramDeathTest : public testing::Test {};

TEST_F(ProgramDeathTest, AnErrorEndsItWithItsLineAndCodeAndRunsNoDestructor) {
  const auto work = [] {
    const Hangs worker;
    fail(ExitCode::bad_data, "shard {} is broken", 7);
  };
  EXPECT_EXIT(run_alone(work), testing::ExitedWithCode(65),
              "^ERROR exit=65 rank=0: shard 7 is broken\n$");
}

TEST_F(ProgramDeathTest, AFileThatIsNotWholeYetIsRemoved) {
  const std::string path = testing::TempDir() + "train_gpt_leftover";
  std::ofstream(path) << "half";
  const auto work = [&] {
    const RemoveOnExit file(path);
    fail(ExitCode::io, "the disk is full");
  };
  EXPECT_EXIT(run_alone(work), testing::ExitedWithCode(74), "the disk is full");
  EXPECT_FALSE(std::ifstream(path).good());
}

TEST_F(ProgramDeathTest, AnExceptionOfAnotherThreadIsTheProgramsError) {
  const auto work = [] {
    std::thread([] { throw std::runtime_error("by a worker\nwith a backtrace"); }).join();
  };
  EXPECT_EXIT(run_alone(work), testing::ExitedWithCode(70),
              "^ERROR exit=70 rank=0: by a worker\n$");
}

TEST_F(ProgramDeathTest, AnExceptionOutOfADestructorKeepsItsWords) {
  struct Throws {
    ~Throws() { fail(ExitCode::io, "writing at the end failed"); }
  };
  EXPECT_EXIT(run_alone([] { const Throws scope; }), testing::ExitedWithCode(74),
              "^ERROR exit=74 rank=0: writing at the end failed\n$");
}

TEST_F(ProgramDeathTest, AThreadThatIsNeitherJoinedNorLeftIsSaid) {
  const auto work = [] { const std::thread forgotten([] {}); };
  EXPECT_EXIT(run_alone(work), testing::ExitedWithCode(70), "^ERROR exit=70 rank=0: the program");
}

TEST_F(ProgramDeathTest, WordsThatNeedMemoryThatIsNotThereAreShorter) {
  const auto work = [] {
    explain_errors_with(
        [](const std::exception&) -> std::optional<Error> { throw std::bad_alloc(); });
    throw std::bad_alloc();
  };
  EXPECT_EXIT(run_alone(work), testing::ExitedWithCode(71), "^ERROR exit=71: out of memory, ");
}

Error described(const std::exception_ptr& exception) {
  return describe_error(exception);
}

TEST(Program, WhatItExplainsComesBeforeTheOrdinaryWords) {
  explain_errors_with([](const std::exception& error) -> std::optional<Error> {
    if (std::string_view(error.what()) != "known") return {};
    return Error(ExitCode::config, "explained");
  });
  const auto known = described(std::make_exception_ptr(std::runtime_error("known")));
  EXPECT_EQ(known.exit_code(), ExitCode::config);
  EXPECT_STREQ(known.what(), "explained");
  EXPECT_EQ(described(std::make_exception_ptr(std::runtime_error("other"))).exit_code(),
            ExitCode::internal);
  explain_errors_with(nullptr);
}

TEST(Program, ExhaustedThreadsAreOfTheSystemsResources) {
  const auto error =
      described(std::make_exception_ptr(std::system_error(EAGAIN, std::generic_category())));
  EXPECT_EQ(error.exit_code(), ExitCode::memory);
  EXPECT_NE(std::string(error.what()).find("cannot start a thread"), std::string::npos);
}

TEST(Program, OneThatEndsWellReturnsZero) {
  EXPECT_EQ(run_program([] {}), 0);
}

}  // namespace
}  // namespace tg
