#include "files/lrzip.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "files/child_programs.h"
#include "files/little_endian.h"

namespace tg {
namespace {

constexpr std::string_view kMagic = "LRZI";
constexpr std::size_t kSizePlace = 6, kHeader = 24;
constexpr std::uint64_t kOverhead = 1 << 16;   // of a stream that does not pack
constexpr std::uint64_t kMemory = 1ull << 30;  // beside the contents; a model needs 0.7
constexpr std::uint64_t kSlowest = 20'000;     // bytes a second: a twentieth of a core's
constexpr auto kStart = std::chrono::seconds(60);

std::chrono::seconds time_limit(std::uint64_t bytes) {
  return kStart + std::chrono::seconds(bytes / kSlowest);
}

// Quiet, from standard input to standard output, with one thread. By its own defaults it would plan
// with two thirds of the machine's memory, and yield to every other process.
ChildProgram lrzip(const std::vector<std::string>& action, std::string_view input,
                   std::uint64_t max_output, std::string name) {
  const auto hundreds_of_mb = 10 + (input.size() + max_output) / 25'000'000;
  const int nice = std::max(0, ::getpriority(PRIO_PROCESS, 0));
  std::vector<std::string> arguments = {
      "lrzip", "-Q", "-p", "1", "-m", std::to_string(hundreds_of_mb), "-N", std::to_string(nice)};
  arguments.insert(arguments.end(), action.begin(), action.end());
  arguments.emplace_back("-");
  return {.arguments = std::move(arguments),
          // Else it would obey an lrzip.conf of the current folder.
          .environment = {"LRZIP=NOCONFIG"},
          .input = input,
          .max_output = std::max<std::uint64_t>(max_output, input.size()),
          .max_memory = kMemory + 4 * (input.size() + max_output),
          .name = std::move(name)};
}

void check_head(const LrzipStream& stream) {
  REQUIRE(stream.packed.size() >= kHeader && stream.packed.starts_with(kMagic), ExitCode::bad_data,
          "{}: expected an lrzip stream, found {} bytes of something else", stream.name,
          stream.packed.size());
  const auto size = number_at<std::uint64_t>(stream.packed, kSizePlace);
  REQUIRE(size == stream.size, ExitCode::bad_data,
          "{}: expected {} bytes when unpacked, found a stream of {}", stream.name, stream.size,
          size);
}

// Runs those whose input has bytes.
std::vector<std::string> run(const std::vector<ChildProgram>& programs, ExitCode failure) {
  std::vector<ChildProgram> given;
  std::uint64_t bytes = 0;
  for (const auto& program : programs) {
    if (program.input.empty()) continue;
    given.push_back(program);
    bytes += program.max_output;
  }
  auto found = run_side_by_side(given, time_limit(bytes), failure);
  std::vector<std::string> outputs(programs.size());
  auto next = found.begin();
  for (std::size_t i = 0; i < programs.size(); ++i)
    if (!programs[i].input.empty()) outputs[i] = std::move(*next++);
  return outputs;
}

}  // namespace

void require_lrzip() {
  ChildProgram version = lrzip({"--version"}, "", kOverhead, "artifacts packed per group");
  run_side_by_side({version}, kStart, ExitCode::internal);
}

std::vector<std::string> compress_lrzip(const std::vector<std::string>& contents) {
  std::vector<ChildProgram> programs;
  for (const auto& content : contents)
    programs.push_back(lrzip({"-z", "-L", "9"}, content, 2 * content.size() + kOverhead,
                             fmt::format("packing {} bytes", content.size())));
  return run(programs, ExitCode::internal);
}

std::vector<std::string> decompress_lrzip(const std::vector<LrzipStream>& streams) {
  std::vector<ChildProgram> programs;
  for (const auto& stream : streams) {
    if (stream.size == 0) {
      REQUIRE(stream.packed.empty(), ExitCode::bad_data, "{}: expected no bytes, found {}",
              stream.name, stream.packed.size());
    } else {
      check_head(stream);
    }
    programs.push_back(lrzip({"-d"}, stream.packed, stream.size, stream.name));
  }
  auto outputs = run(programs, ExitCode::bad_data);
  for (std::size_t i = 0; i < streams.size(); ++i)
    REQUIRE(outputs[i].size() == streams[i].size, ExitCode::bad_data,
            "{}: expected {} bytes when unpacked, found {}", streams[i].name, streams[i].size,
            outputs[i].size());
  return outputs;
}

}  // namespace tg
