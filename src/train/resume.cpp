#include "train/resume.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "config/frozen_settings.h"
#include "store/checkpoint_folder.h"
#include "store/finished_marker.h"
#include "store/safetensors.h"
#include "train/checkpoints.h"
#include "train/machine.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

// Rank 0's choice as text for the others; a folder's path is neither of these.
const std::string kNew, kFinished = "finished";

// The newest checkpoint whose every byte is as it was written; empty: none.
std::string newest_valid(const std::string& root) {
  for (const auto step : checkpoint_steps(root)) {
    const auto folder = checkpoint_folder(root, step);
    try {
      verify_checkpoint(folder);
      return folder;
    } catch (const Error& error) {
      log_warn("{} is skipped: {}", folder, error.what());
    }
  }
  return kNew;
}

bool is_finished(const Settings& settings, const std::string& root) {
  const auto finished = read_finished(root);
  if (!finished) return false;
  const bool same_limits = finished->iterations == settings.run.iterations &&
                           finished->max_wallclock_seconds == settings.run.max_wallclock_seconds;
  if (!same_limits) return false;
  log_info(
      "finished: step {} of {} was its last, and its results are complete in {}; raise ITERATIONS "
      "to go on, or set RESUME=never for a new run",
      finished->step, finished->iterations, fs::path(root).parent_path().string());
  return true;
}

std::string choose(const Settings& settings, const std::string& root) {
  const auto& resume = settings.runtime.resume;
  remove_incomplete_checkpoints(root);
  if (resume == "never") return kNew;
  if (resume != "auto") {
    verify_checkpoint(resume);
    return resume;
  }
  return is_finished(settings, root) ? kFinished : newest_valid(root);
}

bool lies_in(const std::string& root, const std::string& checkpoint) {
  std::error_code ignored;
  return fs::equivalent(fs::path(checkpoint) / "..", root, ignored);
}

// Writes the tensors of a checkpoint's files into the state.
class Loader final : public StateVisitor {
 public:
  explicit Loader(const ResumePoint& point) : checkpoint_(point.checkpoint) {
    for (const auto& file : point.manifest.files) {
      for (auto& named : load_safetensors(checkpoint_ + "/" + file.name)) {
        tensors_.insert(std::move(named));
      }
    }
  }

  void operator()(const std::string& name, std::int64_t& value) override { read(name, value); }
  void operator()(const std::string& name, double& value) override { read(name, value); }
  void operator()(const std::string& name, bool& value) override { read(name, value); }
  void operator()(const std::string& name, const at::Tensor& value, Placement) override {
    value.copy_(find(name, value.sizes()));
  }

 private:
  template <class Value>
  void read(const std::string& name, Value& value) {
    const auto& found = find(name, {});
    REQUIRE(found.scalar_type() == c10::CppTypeToScalarType<Value>::value, ExitCode::bad_data,
            "{}: '{}' is {}; it was saved by another program", checkpoint_, name,
            c10::toString(found.scalar_type()));
    value = *found.const_data_ptr<Value>();
  }

  const at::Tensor& find(const std::string& name, at::IntArrayRef sizes) const {
    const auto found = tensors_.find(name);
    REQUIRE(found != tensors_.end(), ExitCode::bad_data,
            "{}: has no '{}'; it was saved by another program", checkpoint_, name);
    REQUIRE(found->second.sizes() == sizes, ExitCode::bad_data,
            "{}: '{}' has shape {} (expected {}); it was saved by another program", checkpoint_,
            name, fmt::join(found->second.sizes(), "×"), fmt::join(sizes, "×"));
    return found->second;
  }

  const std::string checkpoint_;
  std::unordered_map<std::string, at::Tensor> tensors_;
};

}  // namespace

Beginning find_beginning(const Settings& settings, const std::string& output_dir,
                         const Rendezvous& rendezvous, const LaunchInfo& launch) {
  const auto root = checkpoints_folder(output_dir);
  const auto chosen = broadcast_from_rank_0(rendezvous, launch, "resume",
                                            launch.rank == 0 ? choose(settings, root) : "");
  if (chosen == kNew) return {};
  if (chosen == kFinished) return {.resume = {}, .finished = true};
  ResumePoint point{chosen, read_manifest(chosen), lies_in(root, chosen)};
  require_resumable(chosen, point.manifest.settings, settings, launch.world_size);
  if (launch.rank == 0) {
    if (point.manifest.program != program_line()) {
      log_warn("{} was saved by {}, and this is {}: losses may differ in their last digits", chosen,
               point.manifest.program, program_line());
    }
    if (point.same_run) {
      remove_finished(root);
      set_aside_newer(root, point.manifest.step);
    }
  }
  return {.resume = std::move(point)};
}

void require_same_tokens(const ResumePoint& point, std::optional<std::int64_t> train_tokens) {
  const auto& saved = point.manifest.settings;
  const auto found = saved.find(kTrainTokens);
  if (!train_tokens || found == saved.end()) return;
  REQUIRE(found->second == std::to_string(*train_tokens), ExitCode::config,
          "{}: saved while DATA_PATH had {} training tokens, now it has {}; resume with the same "
          "data, or set RESUME=never for a new run",
          point.checkpoint, found->second, *train_tokens);
}

void load_checkpoint(const ResumePoint& point, RunState& state) {
  const at::NoGradGuard no_grad;
  Loader loader(point);
  state.visit(loader);
}

}  // namespace tg
