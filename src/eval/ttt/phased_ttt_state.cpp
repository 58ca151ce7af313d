#include "eval/ttt/phased_ttt_state.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "base/log.h"
#include "base/strings.h"
#include "files/folder.h"
#include "files/xxh3.h"
#include "weights/weights_file.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".safetensors";

fs::path folder_of(const std::string& prefix) {
  return fs::absolute(prefix).parent_path();
}

// K of a name PREFIX.phase-K.safetensors; nullopt for other names.
std::optional<std::int64_t> phases_of(std::string_view name, const std::string& prefix) {
  const auto begin = fs::path(prefix).filename().string() + ".phase-";
  if (!name.starts_with(begin) || !name.ends_with(kEnd)) return {};
  return parse_number<std::uint32_t>(
      name.substr(begin.size(), name.size() - begin.size() - kEnd.size()));
}

// "NAME=value, now value" for each entry that differs.
std::vector<std::string> other_origins(const Metadata& saved, const Metadata& now) {
  std::vector<std::string> found;
  for (const auto& [name, value] : now) {
    const auto before = saved.find(name);
    if (before == saved.end())
      found.push_back(fmt::format("no {}, now {}", name, value));
    else if (before->second != value)
      found.push_back(fmt::format("{}={}, now {}", name, escaped(before->second), value));
  }
  return found;
}

Metadata with_phases(Metadata origin, std::size_t phases) {
  origin["phases done"] = std::to_string(phases);
  return origin;
}

}  // namespace

std::string digest_of(const NamedTensors& tensors) {
  Xxh3 digest;
  for (const auto& [name, tensor] : tensors) {
    digest.add(name.data(), name.size());
    const auto host = tensor.cpu().contiguous();
    digest.add(host.const_data_ptr(), host.nbytes());
  }
  return fmt::format("{:016x}", digest.value());
}

TttStateFiles::TttStateFiles(std::string prefix)
    : prefix_(std::move(prefix)),
      lock_(prefix_ + ".lock",
            {.taken = fmt::format("another evaluation keeps its state in {} (expected files that "
                                  "no other one writes",
                                  pattern()),
             .elsewhere = "give test-time training another folder for its state, --state-dir DIR",
             .unguarded = "nothing keeps another evaluation from writing its state there"}) {
  remove_abandoned_files(folder_of(prefix_), [this](std::string_view name) {
    return phases_of(name, prefix_).has_value();
  });
}

std::string TttStateFiles::path(std::size_t phases) const {
  return fmt::format("{}.phase-{}{}", prefix_, phases, kEnd);
}

std::set<std::int64_t> TttStateFiles::phases() const {
  std::set<std::int64_t> found;
  std::error_code ignored;
  for (const auto& name : names_in(folder_of(prefix_), ignored))
    if (const auto phases = phases_of(name, prefix_)) found.insert(*phases);
  return found;
}

std::string TttStateFiles::pattern() const {
  return fmt::format("{}.phase-K{}", prefix_, kEnd);
}

void TttStateFiles::save(std::size_t phases, const NamedTensors& state,
                         const Metadata& origin) const {
  save_safetensors(path(phases), state, with_phases(origin, phases));
}

void TttStateFiles::load(std::size_t phases, NamedTensors& state, const Metadata& origin) const {
  Metadata found;
  const auto tensors = load_safetensors(path(phases), &found);
  const auto others = other_origins(found, with_phases(origin, phases));
  REQUIRE(others.empty(), ExitCode::config,
          "{}: this state of test-time training is of another evaluation ({}); use that one's "
          "settings, or remove the file to start over",
          path(phases), fmt::join(others, "; "));
  copy_into(tensors, state, path(phases), ExitCode::config);
}

void TttStateFiles::remove_others(std::optional<std::size_t> kept) const {
  for (const auto count : phases()) {
    const auto phases = static_cast<std::size_t>(count);
    if (phases == kept) continue;
    std::error_code error;
    fs::remove(path(phases), error);
    if (error)
      log_warn("{}: this state of test-time training is obsolete but cannot be removed ({})",
               path(phases), error.message());
  }
}

}  // namespace tg
