#include "files/child_programs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/files/testing.h"

namespace tg::test {
namespace {

constexpr auto kLimit = std::chrono::seconds(600);

ChildProgram shell(const std::string& script, std::string_view input = "") {
  return {.arguments = {"sh", "-c", script},
          .environment = {"WORD=given"},
          .input = input,
          .max_output = 1 << 20,
          .max_memory = 1 << 30,
          .name = "f"};
}

std::string error_of(const std::vector<ChildProgram>& programs,
                     std::chrono::seconds limit = kLimit) {
  return test::error_of(ExitCode::bad_data,
                        [&] { run_concurrently(programs, limit, ExitCode::bad_data); });
}

void expect_no_child_left() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildPrograms, EachReadsItsInputAndHasNoOtherEnvironment) {
  const std::string large(300'000, 'x');
  const auto outputs = run_concurrently(
      {shell("cat", large), shell("echo $WORD $HOME"), shell("cat; echo ' all  is well ' >&2", "")},
      kLimit, ExitCode::bad_data);
  ASSERT_EQ(outputs.size(), 3);
  EXPECT_EQ(outputs[0].bytes, large);
  EXPECT_EQ(outputs[1].bytes, "given\n");
  EXPECT_EQ(outputs[2].bytes, "");
  EXPECT_EQ(outputs[1].stderr_tail, "");
  EXPECT_EQ(outputs[2].stderr_tail, ": all  is well");
  EXPECT_TRUE(run_concurrently({}, kLimit, ExitCode::bad_data).empty());
}

// Each of these would go on for ten minutes.
TEST(ChildPrograms, TheFirstThatFailsEndsTheOthersAndIsTold) {
  const auto sleeper = shell("sleep 600");
  EXPECT_EQ(error_of({sleeper, shell("echo 'bad  input' >&2; echo again >&2; exit 3"), sleeper}),
            "f: sh failed (exit status 3): bad  input again");
  expect_no_child_left();
  EXPECT_EQ(error_of({shell("kill -9 $$"), sleeper}), "f: sh failed (signal 9)");
  expect_no_child_left();
  EXPECT_EQ(error_of({sleeper}, std::chrono::seconds(0)), "f: sh took longer than 0 s");
  expect_no_child_left();
  auto absent = sleeper;
  absent.arguments[0] = "no_such_program";
  EXPECT_EQ(test::error_of(ExitCode::missing_input,
                           [&] {
                             run_concurrently({sleeper, absent}, kLimit, ExitCode::io);
                           }),
            "f: expected the program no_such_program in PATH, found none; install the package of "
            "that name");
  expect_no_child_left();
}

TEST(ChildPrograms, NoneWritesOrAllocatesMoreThanItMay) {
  auto program = shell("head -c 5000 /dev/zero");
  program.max_output = 5000;
  EXPECT_EQ(run_concurrently({program}, kLimit, ExitCode::bad_data)[0].bytes.size(), 5000);
  program.max_output = 4999;
  expect_start(error_of({program}), "f: sh failed (");
  program = shell("head -c 400000000 /dev/zero | tail -c 400000000 | wc -c");
  program.max_memory = 200 << 20;
  program.arguments[2] += "; kill -9 $$";  // the pipe's own status is wc's
  expect_start(error_of({program}), "f: sh failed (");
}

// A hard limit cannot be raised again but by root.
TEST(ChildPrograms, StartWhereTheirOwnerMayHaveLess) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    const rlimit output{1 << 19, 1 << 19};
    bool started =
        ::setrlimit(RLIMIT_FSIZE, &output) == 0 && (::geteuid() != 0 || ::setuid(65534) == 0);
    try {
      started = started &&
                run_concurrently({shell("echo here")}, kLimit, ExitCode::io)[0].bytes == "here\n";
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      started = false;
    }
    ::_exit(started ? 0 : 1);
  }
  int status = -1;
  ::waitpid(owner, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ChildPrograms, InheritNoFileOfTheirOwner) {
  const int open_to_exec = ::fcntl(2, F_DUPFD, 100);
  ASSERT_GE(open_to_exec, 100);
  const auto names = run_concurrently({shell("ls /proc/$$/fd")}, kLimit, ExitCode::io)[0].bytes;
  ::close(open_to_exec);
  EXPECT_EQ(names.find(std::to_string(open_to_exec)), std::string::npos) << names;
}

TEST(ChildPrograms, StartWhereTheirOwnerHasClosedItsStandardDescriptors) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    for (int i = 0; i < 3; ++i) ::close(i);
    bool right = false;
    try {
      right = run_concurrently({shell("cat", "x")}, kLimit, ExitCode::io)[0].bytes == "x";
    } catch (const Error&) {
    }
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(owner, &status, 0);
  EXPECT_EQ(status, 0);
}

// What kills the owner cannot tell the child: the kernel does.
TEST(ChildPrograms, IsKilledWithItsOwner) {
  const TempDir folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    run_concurrently({shell("echo $$ >" + fifo + "; exec sleep 600")}, kLimit, ExitCode::io);
    ::_exit(0);
  }
  const pid_t child = std::stoi(read_file(fifo));
  pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  ASSERT_GE(ended.fd, 0);
  EXPECT_EQ(::poll(&ended, 1, 0), 0);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_EQ(::poll(&ended, 1, -1), 1);
  ::close(ended.fd);
}

}  // namespace
}  // namespace tg::test
