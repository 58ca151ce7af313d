#include "files/lrzip.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "files/child_programs.h"
#include "files/little_endian.h"

namespace tg {
namespace {

constexpr std::string_view kMagic = "LRZI";
constexpr std::size_t kSizeOffset = 6, kHeader = 24;
constexpr std::uint64_t kOverhead = 1 << 16;   // for incompressible contents
constexpr std::uint64_t kMemory = 1ull << 30;  // beyond the contents; ZPAQ needs 0.7 GiB
constexpr std::uint64_t kMinBytesPerSecond =
    20'000;  // bytes per second: a twentieth of one core's speed
constexpr auto kStartupTime = std::chrono::seconds(60);

std::chrono::seconds time_limit(std::uint64_t bytes) {
  return kStartupTime + std::chrono::seconds(bytes / kMinBytesPerSecond);
}

// lrzip creates two temporary files, and tries another folder only for the first.
std::string folder_for_lrzip() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  return error || ::access(folder.c_str(), W_OK) != 0 ? "." : folder.string();
}

// Runs lrzip quietly from standard input to standard output, with one thread. By default it would
// plan for two thirds of the machine's memory and lower its own priority.
ChildProgram lrzip(const std::vector<std::string>& action, std::string_view input,
                   std::uint64_t max_output, std::string name) {
  const auto hundreds_of_mb = 10 + (input.size() + max_output) / 25'000'000;
  const int nice = std::max(0, ::getpriority(PRIO_PROCESS, 0));
  std::vector<std::string> arguments = {
      "lrzip", "-Q", "-p", "1", "-m", std::to_string(hundreds_of_mb), "-N", std::to_string(nice)};
  arguments.insert(arguments.end(), action.begin(), action.end());
  arguments.emplace_back("-");
  return {.arguments = std::move(arguments),
          // NOCONFIG: lrzip would otherwise read an lrzip.conf in the current folder.
          .environment = {"LRZIP=NOCONFIG", "TMPDIR=" + folder_for_lrzip()},
          .input = input,
          .max_output = std::max<std::uint64_t>(max_output, input.size()),
          .max_memory = kMemory + 4 * (input.size() + max_output),
          .name = std::move(name)};
}

// Checks the stream's magic number and size. `words`: the last words of the program that wrote the
// stream.
void check_head(const LrzipStream& stream, ExitCode failure, std::string_view words = "") {
  REQUIRE(stream.packed.size() >= kHeader && stream.packed.starts_with(kMagic), failure,
          "{}: expected an lrzip stream, found {} bytes of something else{}", stream.name,
          stream.packed.size(), words);
  const auto size = number_at<std::uint64_t>(stream.packed, kSizeOffset);
  REQUIRE(size == stream.size, failure,
          "{}: expected {} bytes when unpacked, found a stream of {}{}", stream.name, stream.size,
          size, words);
}

// Runs the programs whose input is not empty.
std::vector<ChildOutput> run(const std::vector<ChildProgram>& programs, ExitCode failure) {
  std::vector<ChildProgram> given;
  std::uint64_t bytes = 0;
  for (const auto& program : programs) {
    if (program.input.empty()) continue;
    given.push_back(program);
    bytes += program.max_output;
  }
  auto found = run_concurrently(given, time_limit(bytes), failure);
  std::vector<ChildOutput> outputs(programs.size());
  auto next = found.begin();
  for (std::size_t i = 0; i < programs.size(); ++i)
    if (!programs[i].input.empty()) outputs[i] = std::move(*next++);
  return outputs;
}

std::vector<std::string> pack(const std::vector<std::string>& contents, const std::string& name) {
  std::vector<ChildProgram> programs;
  for (const auto& content : contents)
    programs.push_back(lrzip({"-z", "-L", "9"}, content, 2 * content.size() + kOverhead, name));
  auto outputs = run(programs, ExitCode::internal);
  std::vector<std::string> streams;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto& [bytes, words] = outputs[i];
    if (!contents[i].empty())
      check_head({bytes, contents[i].size(), programs[i].name}, ExitCode::internal, words);
    streams.push_back(std::move(outputs[i].bytes));
  }
  return streams;
}

// Checks the size of each output, since lrzip may exit with 0 although it failed. `failure`: exit
// code for an incomplete stream.
std::vector<std::string> unpack(const std::vector<LrzipStream>& streams, ExitCode failure) {
  std::vector<ChildProgram> programs;
  for (const auto& stream : streams)
    programs.push_back(lrzip({"-d"}, stream.packed, stream.size, stream.name));
  auto outputs = run(programs, failure);
  std::vector<std::string> contents;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    REQUIRE(outputs[i].bytes.size() == streams[i].size, failure,
            "{}: expected {} bytes when unpacked, found {}{}", streams[i].name, streams[i].size,
            outputs[i].bytes.size(), outputs[i].stderr_tail);
    contents.push_back(std::move(outputs[i].bytes));
  }
  return contents;
}

}  // namespace

void require_lrzip() {
  const std::string probe = "a few bytes";
  const auto packed = pack({probe}, "artifacts packed per group");
  unpack({{packed[0], probe.size(),
           "artifacts packed per group need the program lrzip, and it a folder for temporary files "
           "that can be written (TMPDIR, /tmp or the current folder)"}},
         ExitCode::cannot_create);
}

std::vector<std::string> compress_lrzip(const std::vector<std::string>& contents) {
  return pack(contents, "an artifact's weights");
}

std::vector<std::string> decompress_lrzip(const std::vector<LrzipStream>& streams) {
  for (const auto& stream : streams) {
    if (stream.size == 0) {
      REQUIRE(stream.packed.empty(), ExitCode::bad_data, "{}: expected no bytes, found {}",
              stream.name, stream.packed.size());
    } else {
      check_head(stream, ExitCode::bad_data);
    }
  }
  require_lrzip();  // otherwise a valid stream could be reported as damaged
  return unpack(streams, ExitCode::bad_data);
}

}  // namespace tg
