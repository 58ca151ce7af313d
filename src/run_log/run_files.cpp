#include "run_log/run_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "files/atomic_file.h"
#include "files/folder.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> begun = {"config.json", "log.txt", "metrics.jsonl"};

constexpr std::string_view events = "tensorboard";
constexpr std::array<std::string_view, 2> folders = {"checkpoints", events};

void for_each_name(auto&& function) {
  for (const auto name : begun) function(name);
  for (const auto name : kFinalModels) {
    function(name);
    function(fmt::format("{}{}", name, kRecordEnding));
  }
}

std::size_t stem_size(std::string_view name) {
  return std::min(name.find('.'), name.size());
}

// Inserts a label: log.txt, 3 → log.3.txt; checkpoints, 3 → checkpoints.3.
std::string with_label(std::string_view name, std::string_view label) {
  const auto stem = stem_size(name);
  return fmt::format("{}.{}{}", name.substr(0, stem), label, name.substr(stem));
}

// Returns the label's number: log.3.txt, log.txt → 3.
std::optional<int> number_in(std::string_view file, std::string_view name) {
  const auto stem = name.substr(0, stem_size(name)), extension = name.substr(stem.size());
  if (!file.starts_with(fmt::format("{}.", stem))) return {};
  file.remove_prefix(stem.size() + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), number);
  const bool is_number = error == std::errc() && std::string_view(end, file.end()) == extension;
  return is_number ? std::optional(number) : std::nullopt;
}

std::string random_uuid() {
  std::string uuid;
  std::ifstream file("/proc/sys/kernel/random/uuid");
  std::getline(file, uuid);
  REQUIRE(!uuid.empty(), ExitCode::io, "cannot draw a run id; set RUN_ID");
  return uuid;
}

void make_folder(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  REQUIRE(!error && access(dir.c_str(), W_OK | X_OK) == 0, ExitCode::cannot_create,
          "cannot write to OUTPUT_DIR {} ({}); choose a folder that can be created and written",
          dir, error ? error.message() : "permission denied");
}

// Links logs/RUN_ID.txt to the log, for convenience: a failure is no error. Another file or link of
// this name is not replaced.
void link_log(const std::string& dir) {
  const fs::path link = dir + ".txt";
  const fs::path target = fs::path(dir).filename() / "log.txt";
  std::error_code error;
  if (fs::symlink_status(link, error).type() == fs::file_type::not_found) {
    fs::create_symlink(target, link, error);
  } else if (fs::read_symlink(link, error) != target) {
    log_warn("{} is not a link to this run's log and stays as it is; the log is {}/log.txt",
             link.string(), dir);
  }
}

}  // namespace

bool is_run_file(std::string_view name) {
  bool found = name.starts_with("trace_rank") || name == "finished.json";
  for_each_name(
      [&](std::string_view own) { found |= name == own || name == with_label(own, "new"); });
  return found;
}

std::string checkpoints_folder(const std::string& output_dir) {
  return output_dir + "/checkpoints";
}

RunFiles::RunFiles(std::string dir, bool continues) : dir_(std::move(dir)), earlier_(false) {
  for_each_name([&](std::string_view name) {
    const auto path = fmt::format("{}/{}", dir_, name);
    std::error_code ignored;
    REQUIRE(!fs::is_directory(path, ignored), ExitCode::cannot_create,
            "{}: is a folder, expected a file that the run may write; choose another OUTPUT_DIR",
            path);
    earlier_ |= !continues && exists(name);
  });
  for (const auto folder : folders) earlier_ |= !continues && has_content(folder);
}

bool RunFiles::exists(std::string_view name) const {
  std::error_code ignored;
  const auto status = fs::symlink_status(fmt::format("{}/{}", dir_, name), ignored);
  return status.type() != fs::file_type::not_found;
}

bool RunFiles::has_content(std::string_view folder) const {
  std::error_code ignored;
  return fs::directory_iterator(fmt::format("{}/{}", dir_, folder), ignored) !=
         fs::directory_iterator();
}

std::string RunFiles::path(std::string_view name) const {
  return fmt::format("{}/{}", dir_, earlier_ ? with_label(name, "new") : name);
}

void RunFiles::rename(const std::string& from, const std::string& to) const {
  std::error_code error;
  fs::rename(dir_ + "/" + from, dir_ + "/" + to, error);
  REQUIRE(!error, ExitCode::io, "{}/{}: cannot be renamed to {} ({})", dir_, from, to,
          error.message());
}

int RunFiles::next_number() const {
  int highest = 0;
  std::error_code error;
  const auto files = names_in(dir_, error);
  REQUIRE(!error, ExitCode::io, "{}: cannot be listed ({}), to number a former run's files", dir_,
          error.message());
  for (const auto& file : files) {
    const auto raise = [&](std::string_view name) {
      highest = std::max(highest, number_in(file, name).value_or(0));
    };
    for_each_name(raise);
    std::ranges::for_each(folders, raise);
  }
  return highest + 1;
}

void RunFiles::take_names() {
  if (!earlier_) return;
  const auto number = std::to_string(next_number());
  for_each_name([&](std::string_view name) {
    if (exists(name)) rename(std::string(name), with_label(name, number));
  });
  for (const auto folder : folders) {
    if (has_content(folder)) rename(std::string(folder), with_label(folder, number));
  }
  for (const auto name : begun) rename(with_label(name, "new"), std::string(name));
  if (exists(with_label(events, "new"))) rename(with_label(events, "new"), std::string(events));
  earlier_ = false;
  sync_folder(dir_);
}

OutputDir::OutputDir(Settings& settings, int rank, const FromRank0& from_rank_0) {
  auto& run_id = settings.data.run_id;
  auto& dir = settings.runtime.output_dir;
  if (rank == 0) {
    if (run_id.empty()) run_id = random_uuid();
    const bool is_default = dir.empty();
    if (is_default) dir = "logs/" + run_id;
    make_folder(dir);
    lock_.emplace(dir + "/run.lock",
                  LockTexts{.taken = fmt::format("another run writes to OUTPUT_DIR {} (expected a "
                                                 "folder that no other run uses",
                                                 dir),
                            .elsewhere = "choose another OUTPUT_DIR or RUN_ID",
                            .unguarded = "nothing keeps another run from writing to this folder"});
    for (const auto& folder : {dir, checkpoints_folder(dir)}) {
      remove_abandoned_files(folder, is_run_file);
    }
    if (is_default) link_log(dir);
  }
  run_id = from_rank_0("run_id", run_id);
  dir = from_rank_0("output_dir", dir);
  path_ = dir;
}

}  // namespace tg
