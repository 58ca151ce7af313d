#include "files/child_programs.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <optional>
#include <span>

#include "base/elapsed.h"
#include "base/escaped.h"
#include "base/progress.h"
#include "files/file.h"
#include "files/file_writer.h"

namespace tg {
namespace {

constexpr int kProgressMs = 1000;
constexpr std::size_t kLastWords = 300;  // bytes of standard error in a message

class Descriptor {
 public:
  Descriptor(int descriptor, const char* what) : descriptor_(descriptor) {
    REQUIRE(descriptor >= 0, ExitCode::io, "{}: {}", what, std::strerror(errno));
  }
  ~Descriptor() { ::close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Returns a file in memory for a standard stream of a child.
File memory_file(std::string_view content = {}) {
  auto file = File::in_memory("child");
  REQUIRE(file, ExitCode::io, "a file in memory: {}", std::strerror(errno));
  REQUIRE(write_fully(file->descriptor(), content.data(), content.size()) == content.size(),
          ExitCode::io, "a file of {} bytes in memory: {}", content.size(), std::strerror(errno));
  ::lseek(file->descriptor(), 0, SEEK_SET);
  return *std::move(file);
}

std::string content_of(const File& file) {
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Caps the limit at the process's hard limit, which only root may raise.
rlimit at_most(int resource, std::uint64_t bytes) {
  rlimit own{};
  ::getrlimit(resource, &own);
  const rlim_t capped = std::min<rlim_t>(own.rlim_max, bytes);
  return {capped, capped};
}

// Runs in the child between vfork and exec: system calls only, since the child shares this
// process's memory. Returns only if it fails.
void become(char* const* arguments, char* const* environment, const int (&standard)[3],
            const rlimit& output, const rlimit& memory) {
  constexpr rlimit no_core{0, 0};
  ::setsid();  // detaches from the terminal, so that it cannot prompt
  // Closes the files and sockets that libraries opened without O_CLOEXEC, in case malicious input
  // takes the program over. Fails before Linux 5.11; the program then inherits them.
  ::syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::setrlimit(RLIMIT_FSIZE, &output) != 0 ||
      ::setrlimit(RLIMIT_AS, &memory) != 0 || ::setrlimit(RLIMIT_CORE, &no_core) != 0)
    return;
  for (int i = 0; i < 3; ++i) {
    // dup2 of a descriptor to itself does not clear its close-on-exec flag.
    const bool in_place = standard[i] == i;
    if ((in_place ? ::fcntl(i, F_SETFD, 0) : ::dup2(standard[i], i)) < 0) return;
  }
  ::execvpe(arguments[0], arguments, environment);
}

// Uses vfork, since fork copies gigabytes of page tables and pages that a device writes to;
// posix_spawn can neither limit the child nor tie its lifetime to ours. The child keeps all signals
// blocked: none is meant for it, and SIGKILL cannot be blocked. A pipe reports why exec failed, and
// exec closes it: under the thread sanitizer vfork is fork, so memory cannot report it.
pid_t start(const ChildProgram& program, const int (&standard)[3]) {
  const auto arguments = pointers(program.arguments), environment = pointers(program.environment);
  const rlimit output = at_most(RLIMIT_FSIZE, program.max_output);
  const rlimit memory = at_most(RLIMIT_AS, program.max_memory);
  int ends[2] = {-1, -1};
  [[maybe_unused]] const int made = ::pipe2(ends, O_CLOEXEC);
  const Descriptor from_child(ends[0], "a pipe");
  std::optional<Descriptor> to_parent(std::in_place, ends[1], "a pipe");
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::vfork();
  if (child == 0) {
    become(arguments.data(), environment.data(), standard, output, memory);
    const int reason = errno;
    [[maybe_unused]] const auto told = ::write(ends[1], &reason, sizeof reason);
    ::_exit(127);
  }
  int error = child < 0 ? errno : 0;
  to_parent.reset();
  const bool failed = child < 0 || ::read(from_child.get(), &error, sizeof error) > 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child > 0 && failed) ::waitpid(child, nullptr, 0);
  REQUIRE(!failed || error != ENOENT, ExitCode::missing_input,
          "{}: expected the program {} in PATH, found none; install the package of that name",
          program.name, program.arguments[0]);
  REQUIRE(!failed, ExitCode::io, "{}: cannot start {}: {}", program.name, program.arguments[0],
          std::strerror(error));
  return child;
}

// Child process that the destructor kills.
class Process {
 public:
  explicit Process(pid_t pid) : pid_(pid) {}
  ~Process() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ != 0; }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_;
};

class Child {
 public:
  explicit Child(const ChildProgram& program)
      : program_(program),
        input_(memory_file(program.input)),
        process_(start(program, {input_.descriptor(), output_.descriptor(), errors_.descriptor()})),
        ended_(static_cast<int>(::syscall(SYS_pidfd_open, process_.pid(), 0)), "a child process") {}

  bool running() const { return process_.running(); }
  pollfd poll_entry() const { return {ended_.get(), POLLIN, 0}; }

  // Returns the output of a child that has exited.
  ChildOutput take(ExitCode failure) {
    const int status = process_.wait();
    const auto how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                         : fmt::format("exit status {}", WEXITSTATUS(status));
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, failure, "{}: {} failed ({}){}",
            program_.name, program_.arguments[0], how, stderr_tail());
    return {content_of(output_), stderr_tail()};
  }

 private:
  std::string stderr_tail() const {
    std::string words = content_of(errors_);
    std::replace(words.begin(), words.end(), '\n', ' ');
    const auto first = words.find_first_not_of(' '), last = words.find_last_not_of(' ');
    if (first == std::string::npos) return "";
    return ": " + escaped(std::string_view(words).substr(first, last + 1 - first), kLastWords);
  }

  const ChildProgram& program_;
  File input_, output_ = memory_file(), errors_ = memory_file();
  Process process_;
  Descriptor ended_;
};

}  // namespace

std::vector<ChildOutput> run_concurrently(const std::vector<ChildProgram>& programs,
                                          std::chrono::seconds limit, ExitCode failure) {
  const auto end = Clock::now() + limit;
  std::list<Child> children;
  for (const auto& program : programs) children.emplace_back(program);
  std::vector<ChildOutput> outputs(programs.size());
  for (std::size_t left = programs.size(); left > 0;) {
    REQUIRE(Clock::now() < end, failure, "{}: {} took longer than {} s", programs[0].name,
            programs[0].arguments[0], limit.count());
    std::vector<pollfd> entries;
    for (const auto& child : children)
      if (child.running()) entries.push_back(child.poll_entry());
    ::poll(entries.data(), entries.size(), kProgressMs);
    report_progress(0);
    std::size_t i = 0, entry = 0;
    for (auto& child : children) {
      if (child.running() && (entries[entry++].revents & POLLIN) != 0) {
        outputs[i] = child.take(failure);
        --left;
      }
      ++i;
    }
  }
  return outputs;
}

}  // namespace tg
