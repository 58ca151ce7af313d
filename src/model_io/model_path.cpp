#include "model_io/model_path.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "model_io/artifact_files.h"
#include "run_log/run_files.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTransformersModels[] = {"model.safetensors",
                                                    "model.safetensors.index.json"};

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_listable(const std::string& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) && ::access(folder.c_str(), R_OK | X_OK) == 0;
}

ModelPath file_model(const std::string& path) {
  return {ModelKind::file, path, artifact_of(path)};
}

// The first file of these names in the folder.
std::optional<ModelPath> first_model(const std::string& folder, const auto& names) {
  for (const auto name : names) {
    const auto path = fmt::format("{}/{}", folder, name);
    if (is_file(path)) return file_model(path);
  }
  return std::nullopt;
}

std::optional<ModelPath> newest_checkpoint(const std::string& folder) {
  for (const auto& root : {checkpoints_folder(folder), folder}) {
    if (is_listable(root) && !checkpoint_steps(root).empty())
      return ModelPath{ModelKind::newest_checkpoint, root};
  }
  return std::nullopt;
}

ModelPath model_in(const std::string& folder, WeightsChoice weights) {
  REQUIRE(is_listable(folder), ExitCode::missing_input, "cannot open {} ({})", folder,
          std::strerror(errno));
  if (is_file(folder + "/manifest.json")) return {ModelKind::checkpoint, folder};
  auto model = first_model(folder, kFinalModels);
  if (!model || weights != WeightsChoice::automatic)
    if (const auto checkpoint = newest_checkpoint(folder)) return *checkpoint;
  if (!model) model = first_model(folder, kTransformersModels);
  REQUIRE(model, ExitCode::missing_input,
          "{}: expected a model (in a run's folder final_model.safetensors or a checkpoint, in a "
          "checkpoint's manifest.json, in one of transformers model.safetensors), found none",
          folder);
  return *model;
}

// Returns a note for the final model in a run's folder if the run was extended and has not ended
// again; else empty.
std::string extension_note(const std::string& folder) {
  const auto checkpoint = newest_checkpoint(folder);
  if (!checkpoint || read_finished(checkpoint->path)) return "";
  return fmt::format("; its run has gone on since, to step {}",
                     checkpoint_steps(checkpoint->path).front());
}

}  // namespace

ModelPath find_model(const std::string& path, WeightsChoice weights) {
  std::error_code ignored;
  const auto model = fs::is_directory(path, ignored) ? model_in(path, weights) : file_model(path);
  REQUIRE(weights == WeightsChoice::automatic || model.kind != ModelKind::file, ExitCode::usage,
          "WEIGHTS={} chooses in a checkpoint, which has raw weights and their average (expected "
          "one, found {}); leave it out",
          choice_name(weights), model.path);
  return model;
}

void require_unquantized(const ModelPath& model) {
  REQUIRE(model.artifact == Artifact::none, ExitCode::usage,
          "{}: expected a model that is not quantised (.safetensors, .pt), found an artifact",
          model.path);
}

std::string file_beside(const std::string& weights, const std::string& name) {
  const fs::path path(weights);
  // Such as final_model.2.pt, final_model.2.int6.ptz.
  const auto file = path.filename().string();
  const auto begin = file.find('.');
  const auto label = file.substr(std::min(begin, file.size()));
  const auto end = std::min(label.find('.', 1), label.size());
  const bool numbered = end > 1 && label.find_first_not_of("0123456789", 1) >= end;
  const auto dot = name.find('.');
  return path.parent_path() /
         (name.substr(0, dot) + (numbered ? label.substr(0, end) : "") + name.substr(dot));
}

std::string file_of_run(const ModelPath& model, const std::string& name) {
  if (model.kind == ModelKind::file) return file_beside(model.path, name);
  const auto folder = fs::weakly_canonical(model.path);
  const bool one = model.kind == ModelKind::checkpoint;
  return file_beside(one ? folder.parent_path() : folder, name);
}

ModelPath choose_model(Settings& settings, Communicator& communicator) {
  auto& init_from = settings.runtime.init_from;
  const auto weights = settings.runtime.weights;
  auto model = find_model(init_from, weights);  // on every rank, so that each reports its error
  if (communicator.world_size() > 1)
    model = find_model(communicator.broadcast(model.path), WeightsChoice::automatic);
  const bool newest = model.kind == ModelKind::newest_checkpoint;
  // read_model() logs the checkpoint that it reads, under the path as it was given.
  if (newest && communicator.world_size() == 1) return model;
  if (!newest && model.path != init_from) {
    log_note("{}: the model is {}{}", init_from, model.path,
             model.kind == ModelKind::file ? extension_note(init_from) : "");
  }
  init_from = model.path;
  return model;
}

}  // namespace tg
