#include "checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "files/folder.h"
#include "files/json_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

// Hidden folders are named ROOT/.step-00000100SUFFIX.
constexpr std::string_view kTemporary = ".tmp";  // being written
constexpr std::string_view kReplaced = ".old";   // complete; a new checkpoint is taking its name
constexpr std::string_view kPruned = ".pruned";  // being removed

// ROOT/abandoned-step-00000100: a checkpoint of a later step, set aside when the run resumed from
// an earlier one.
constexpr std::string_view kAbandoned = "abandoned-";

std::string name_of(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

std::string hidden_folder(const std::string& root, std::int64_t step, std::string_view suffix) {
  return fmt::format("{}/.{}{}", root, name_of(step), suffix);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (step < 0 || name != name_of(step)) return std::nullopt;
  return step;
}

// The steps of the folders PREFIXstep-00000100SUFFIX, newest first; a missing ROOT has none.
std::vector<std::int64_t> steps_in(const std::string& root, std::string_view prefix,
                                   std::string_view suffix, std::error_code& error) {
  std::vector<std::int64_t> steps;
  for (const auto& file_name : names_in(root, error)) {
    std::string_view name = file_name;
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    name.remove_prefix(prefix.size());
    name.remove_suffix(std::min(name.size(), suffix.size()));
    std::error_code gone;
    const auto step = step_of(name);
    if (step && fs::is_directory(root + "/" + file_name, gone)) steps.push_back(*step);
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  std::ranges::sort(steps, std::greater());
  return steps;
}

std::vector<std::int64_t> steps_or_warning(const std::string& root, std::string_view prefix,
                                           std::string_view suffix) {
  std::error_code error;
  auto steps = steps_in(root, prefix, suffix, error);
  if (error) log_warn("{}: checkpoints to remove cannot be listed ({})", root, error.message());
  return steps;
}

// Returns true if the status cannot be read.
bool exists(const std::string& folder) {
  std::error_code ignored;
  return fs::symlink_status(folder, ignored).type() != fs::file_type::not_found;
}

void remove_or_warn(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) log_warn("{}: cannot be removed ({}); remove it yourself", folder, error.message());
}

void require_files(const std::string& folder, const Manifest& manifest) {
  for (const auto& [name, digest] : manifest.files) {
    const auto path = folder + "/" + name;
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    REQUIRE(!error, ExitCode::io, "{}: expected a file of {} bytes, found none ({})", path,
            digest.bytes, error.message());
    REQUIRE(bytes == digest.bytes, ExitCode::io, "{}: expected {} bytes, found {}", path,
            digest.bytes, bytes);
  }
}

void require(const std::error_code& error, const std::string& path, const char* doing) {
  REQUIRE(!error, ExitCode::io, "{}: {} failed ({})", path, doing, error.message());
}

std::string marker_of(const std::string& root) {
  return root + "/finished.json";
}

}  // namespace

std::string checkpoint_folder(const std::string& root, std::int64_t step) {
  return root + "/" + name_of(step);
}

std::vector<std::int64_t> checkpoint_steps(const std::string& root) {
  std::error_code error;
  auto steps = steps_in(root, "", "", error);
  // A run with KEEP=1 may have published a checkpoint behind the listing's place in the folder and
  // removed the one before it ahead of that place.
  if (!error && steps.empty()) steps = steps_in(root, "", "", error);
  require(error, root, "listing checkpoints");
  return steps;
}

std::string begin_checkpoint(const std::string& root, std::int64_t step) {
  auto folder = hidden_folder(root, step, kTemporary);
  create_folders(folder);
  return folder;
}

void publish_checkpoint(const std::string& root, const Manifest& manifest) {
  const auto temporary = hidden_folder(root, manifest.step, kTemporary);
  const auto replaced = hidden_folder(root, manifest.step, kReplaced);
  const auto complete = checkpoint_folder(root, manifest.step);
  require_files(temporary, manifest);
  write_manifest(temporary, manifest);  // its fsync of the folder covers the other files' names
  const bool replaces = exists(complete);
  std::error_code error, ignored;
  if (replaces) {
    fs::remove_all(replaced, error);
    require(error, replaced, "removing");
    fs::rename(complete, replaced, error);
    require(error, complete, "renaming");
  }
  fs::rename(temporary, complete, error);
  if (error && replaces) fs::rename(replaced, complete, ignored);
  require(error, temporary, "renaming");
  sync_folder(root);
  sync_folder(root + "/..");  // ROOT may be new
  if (replaces) remove_or_warn(replaced);
}

void prune_checkpoints(const std::string& root, std::size_t keep) {
  for (const auto prefix : {std::string_view(), kAbandoned}) {
    const auto steps = steps_or_warning(root, prefix, "");
    for (std::size_t i = keep; i < steps.size(); ++i) {
      const auto complete = fmt::format("{}/{}{}", root, prefix, name_of(steps[i]));
      const auto pruned = hidden_folder(root, steps[i], kPruned);
      std::error_code error;
      fs::remove_all(pruned, error);
      fs::rename(complete, pruned, error);
      if (error)
        log_warn("{}: cannot be removed ({})", complete, error.message());
      else
        remove_or_warn(pruned);
    }
  }
}

void set_aside_newer(const std::string& root, std::int64_t step) {
  for (const auto newer : steps_or_warning(root, "", "")) {
    if (newer <= step) break;
    const auto folder = checkpoint_folder(root, newer);
    const auto aside = fmt::format("{}/{}{}", root, kAbandoned, name_of(newer));
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(folder, aside, error);
    if (error)
      log_warn("{}: cannot be renamed to {} ({})", folder, aside, error.message());
    else
      log_warn("{} is renamed to {}: the run goes on from step {}", folder, aside, step);
  }
}

void remove_incomplete_checkpoints(const std::string& root) {
  for (const auto suffix : {kReplaced, kTemporary, kPruned}) {
    for (const auto step : steps_or_warning(root, ".", suffix)) {
      const auto folder = hidden_folder(root, step, suffix);
      const auto complete = checkpoint_folder(root, step);
      if (suffix != kReplaced || exists(complete)) {
        remove_or_warn(folder);
        continue;
      }
      std::error_code error;
      fs::rename(folder, complete, error);
      if (error) log_warn("{}: cannot be renamed to {} ({})", folder, complete, error.message());
    }
  }
}

void write_finished(const std::string& root, const Finished& finished) {
  create_folders(root);
  write_json_file(marker_of(root), {{"step", finished.step},
                                    {"iterations", finished.iterations},
                                    {"max_wallclock_seconds", finished.max_wallclock_seconds}});
}

std::optional<Finished> read_finished(const std::string& root) {
  const auto path = marker_of(root);
  std::error_code ignored;
  if (fs::status(path, ignored).type() == fs::file_type::not_found) return std::nullopt;
  const auto value = read_json_file(path);
  const JsonFields fields(value, path);
  return Finished{fields.count("step"), fields.count("iterations"),
                  fields.number("max_wallclock_seconds")};
}

void remove_finished(const std::string& root) {
  std::error_code error;
  fs::remove(marker_of(root), error);
  REQUIRE(!error, ExitCode::io, "{}: cannot be removed ({})", marker_of(root), error.message());
}

}  // namespace tg
