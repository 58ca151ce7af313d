// train_gpt for tests, with its libraries loaded: LibTorch's constructors take a quarter of a
// second of each start, a third of the time of the tests of whole programs. `preloaded SOCKET`
// forks for each request that comes over that socket; the child is train_gpt, main() and all, and
// the caller's own child, if that is a subreaper.
//
// A request: the size of what follows, 8 bytes, and with them the descriptors that become 0, 1 and
// 2; then strings, each with its zero: the number of arguments, the folder, the arguments, the
// environment. The answer: the pid.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

int train_gpt_main(int argc, char** argv);  // src/main.cpp

namespace {

constexpr int kStreams = 3;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(EXIT_FAILURE);
}

struct Request {
  std::array<int, kStreams> streams{};
  std::string text;
};

// False: the caller has closed its end.
bool receive(int socket, Request& request) {
  std::uint64_t size = 0;
  iovec part{&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof request.streams)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto got = ::recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  if (got == 0) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (got != sizeof size || header == nullptr) fail("recvmsg");
  std::memcpy(request.streams.data(), CMSG_DATA(header), sizeof request.streams);
  request.text.resize(size);
  if (::recv(socket, request.text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size))
    fail("recv");
  return true;
}

[[noreturn]] void become_train_gpt(Request& request, int socket) {
  ::close(socket);
  for (int i = 0; i < kStreams; ++i)
    if (::dup2(request.streams[i], i) < 0) fail("dup2");
  for (const int stream : request.streams) ::close(stream);
  std::vector<char*> strings;
  for (std::size_t at = 0; at < request.text.size(); at += std::strlen(strings.back()) + 1)
    strings.push_back(request.text.data() + at);
  const int argc = std::atoi(strings.at(0));
  if (::chdir(strings.at(1)) != 0) fail(strings[1]);
  std::vector<char*> argv(strings.begin() + 2, strings.begin() + 2 + argc);
  argv.push_back(nullptr);
  std::vector<char*> environment(strings.begin() + 2 + argc, strings.end());
  environment.push_back(nullptr);
  environ = environment.data();
  std::exit(train_gpt_main(argc, argv.data()));
}

// By way of a child that ends at once, so that train_gpt is handed to the caller. → its pid.
pid_t start(Request& request, int socket) {
  int answer[2];
  if (::pipe(answer) != 0) fail("pipe");
  const pid_t between = ::fork();
  if (between < 0) fail("fork");
  if (between == 0) {
    const pid_t own = ::getpid(), pid = ::fork();
    if (pid == 0) {
      for (const int end : answer) ::close(end);
      // A rank ends where its parent changes: not before it has the caller.
      while (::getppid() == own) ::usleep(100);
      become_train_gpt(request, socket);
    }
    if (::write(answer[1], &pid, sizeof pid) != sizeof pid) fail("write");
    std::_Exit(EXIT_SUCCESS);
  }
  if (::waitpid(between, nullptr, 0) != between) fail("waitpid");
  pid_t pid = -1;
  if (::read(answer[0], &pid, sizeof pid) != sizeof pid || pid < 0) fail("fork");
  for (const int end : answer) ::close(end);
  for (const int stream : request.streams) ::close(stream);
  return pid;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  ::prctl(PR_SET_NAME, "train_gpt");
  const int socket = std::atoi(argv[1]);
  Request request;
  while (receive(socket, request)) {
    const pid_t pid = start(request, socket);
    if (::send(socket, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid) fail("send");
  }
  return EXIT_SUCCESS;
}
