#include "train/resume.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "config/frozen_settings.h"
#include "store/checkpoint_folder.h"
#include "store/checkpoint_reader.h"
#include "store/finished_marker.h"
#include "train/checkpoints.h"
#include "train/machine.h"

namespace tg {

namespace fs = std::filesystem;

namespace {

// Rank 0's choice as text for all ranks; no folder that RESUME can name is either of these.
const std::string kNew = "never", kFinished;

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

// Rank 0's: where the run may begin, the best first.
std::vector<std::string> candidates(const Settings& settings, const std::string& root) {
  const auto& resume = settings.runtime.resume;
  remove_incomplete_checkpoints(root);
  if (resume == "never") return {};
  if (resume != "auto") return {resume};
  if (is_finished(settings, root)) return {kFinished};
  std::vector<std::string> folders;
  for (const auto step : checkpoint_steps(root)) folders.push_back(checkpoint_folder(root, step));
  return folders;
}

// Why the reading fails; nothing: it does not.
std::optional<Error> fault_of(const std::function<void()>& reading) {
  try {
    reading();
    return {};
  } catch (const Error& error) {
    return error;
  }
}

// Reads the checkpoint, if its settings are as these → why it cannot be read; nothing: it is.
std::optional<Error> read(ResumePoint& point, const Settings& settings, Communicator& ranks) {
  const PeerWatch::Work reading(ranks.watch(), "reading " + point.checkpoint);
  auto& manifest = point.manifest;
  if (auto fault = fault_of([&] { manifest = read_manifest(point.checkpoint); })) return fault;
  require_resumable(point.checkpoint, manifest.settings, settings, ranks.world_size());
  return fault_of([&] { point.tensors = read_checkpoint(point.checkpoint, manifest); });
}

// Whether every rank has read the checkpoint. The first rank that has not says why.
bool read_by_all(ResumePoint& point, const Settings& settings, Communicator& communicator) {
  // All come here at the same time, and reading shows its progress, which starting does not.
  const PeerWatch::Timeout timeout(communicator.watch(), settings.runtime.comm_timeout_s);
  const auto fault = read(point, settings, communicator);
  const auto failed = communicator.first_rank_with(fault.has_value());
  if (!failed) return true;
  const bool own = failed == communicator.rank();
  if (settings.runtime.resume == "auto") {
    if (own) log_warn("{} is skipped: {}", point.checkpoint, fault->what());
    return false;
  }
  if (own) throw Error(*fault);
  fail(ExitCode::unavailable, "{}: rank {} cannot read it, and says why", point.checkpoint,
       *failed);
}

bool lies_in(const std::string& root, const std::string& checkpoint) {
  std::error_code ignored;
  return fs::equivalent(fs::path(checkpoint) / "..", root, ignored);
}

// Rank 0's: what is behind the point is no longer this run's.
void go_on_from(const ResumePoint& point, const std::string& root) {
  if (point.manifest.program != program_line()) {
    log_warn("{} was saved by {}, and this is {}: losses may differ in their last digits",
             point.checkpoint, point.manifest.program, program_line());
  }
  if (!point.same_run) return;
  remove_finished(root);
  set_aside_newer(root, point.manifest.step);
}

// Writes the tensors of a checkpoint's files into the state.
class Loader final : public StateVisitor {
 public:
  explicit Loader(ResumePoint& point) : checkpoint_(point.checkpoint) {
    for (auto& named : std::exchange(point.tensors, {})) tensors_.insert(std::move(named));
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
                         Communicator& communicator) {
  const auto root = checkpoints_folder(output_dir);
  std::vector<std::string> choices;
  if (communicator.rank() == 0) choices = candidates(settings, root);
  for (std::size_t i = 0;; ++i) {
    const auto chosen = communicator.broadcast(i < choices.size() ? choices[i] : kNew);
    if (chosen == kNew) return {};
    if (chosen == kFinished) return {.resume = {}, .finished = true};
    ResumePoint point{chosen, {}, lies_in(root, chosen)};
    if (!read_by_all(point, settings, communicator)) continue;
    if (communicator.rank() == 0) go_on_from(point, root);
    return {.resume = std::move(point)};
  }
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

void load_checkpoint(ResumePoint& point, RunState& state) {
  const at::NoGradGuard no_grad;
  Loader loader(point);
  state.visit(loader);
}

}  // namespace tg
