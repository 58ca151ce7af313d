#include "checkpoint/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "config/derived.h"
#include "config/types/text.h"
#include "files/xxh3.h"
#include "recipes/gpt_spec.h"
#include "run_log/run_files.h"
#include "text/tokenizer.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

// Key of the training data in data_identity(); checkpoints of older programs lack it.
const std::string kTrainingData = "training data";
// Rank 0's choices that are not a folder, as broadcast; RESUME cannot name such folders.
const std::string kNew = "never", kFinished;

bool is_finished(const Settings& settings, const std::string& root) {
  const auto finished = read_finished(root);
  if (!finished) return false;
  const bool same_limits = finished->iterations == settings.run.iterations &&
                           finished->max_wallclock_seconds == training_seconds(settings.run);
  if (!same_limits) return false;
  log_info(
      "finished: step {} of {} was its last, and its results are complete in {}; raise ITERATIONS "
      "to go on, or set RESUME=never for a new run",
      finished->step, finished->iterations, fs::path(root).parent_path().string());
  return true;
}

// Returns the checkpoints to try, best first. Rank 0 only.
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

// Returns the Error that `reading` throws; nothing if it succeeds.
std::optional<Error> error_of(const std::function<void()>& reading) {
  try {
    reading();
    return {};
  } catch (const Error& error) {
    return error;
  }
}

// Returns the dtype of a checkpoint's run with COMPUTE_DTYPE=auto: embedding tables are stored in
// bf16 if the run computed in it, else in fp32.
ComputeDtype dtype_of_auto(const ResumePoint& point) {
  const auto tokens = fmt::format("parameter.{}", kTokenTable);
  for (const auto& file : point.manifest.files) {
    const auto path = point.checkpoint + "/" + file.name;
    for (const auto& entry : load_safetensors_header(path).entries)
      if (entry.name == tokens && entry.dtype == at::kBFloat16) return ComputeDtype::bf16;
  }
  return ComputeDtype::fp32;
}

// Returns the checkpoint's fixed settings, resolved. Older programs saved COMPUTE_DTYPE and FP8
// unresolved: the tensors' dtype reveals the former; the FP8 support of that machine is unknown, so
// this machine's value is assumed.
FixedTexts saved_settings(const ResumePoint& point, const Settings& settings,
                          const Settings& as_computed) {
  auto saved = point.manifest.settings;
  if (saved.contains(kTrainingData)) return saved;
  const auto replace = [&](const char* name, const auto& was_set, const auto& computed) {
    const auto found = saved.find(name);
    if (found != saved.end() && found->second == value_text(was_set))
      found->second = value_text(computed);
  };
  replace("COMPUTE_DTYPE", ComputeDtype::automatic, dtype_of_auto(point));
  replace("FP8", settings.runtime.fp8, as_computed.runtime.fp8);
  return saved;
}

// Reads the checkpoint if its settings match. Returns why it cannot be read; nothing if it was
// read.
std::optional<Error> read(ResumePoint& point, const Settings& settings, const Machine& machine,
                          Communicator& ranks) {
  const PeerWatch::Work reading(ranks.watch(), "reading " + point.checkpoint);
  auto as_computed = settings_as_computed(settings, machine);
  FixedTexts saved;
  auto error = error_of([&] {
    point.manifest = read_manifest(point.checkpoint);
    saved = saved_settings(point, settings, as_computed);
  });
  if (error) return error;
  keep_schedule(point, as_computed.run);
  require_resumable(point.checkpoint, saved, as_computed, ranks.world_size());
  return error_of([&] { point.tensors = read_checkpoint(point.checkpoint, point.manifest); });
}

// Returns whether every rank has read the checkpoint. The first rank that failed reports why.
bool read_by_all(ResumePoint& point, const Settings& settings, const Machine& machine,
                 Communicator& communicator) {
  // The regular timeout suffices: all ranks call this at the same time, and reading reports
  // progress, unlike start-up.
  const PeerWatch::Timeout timeout(communicator.watch(), settings.runtime.comm_timeout_s);
  const auto error = read(point, settings, machine, communicator);
  const auto failed = communicator.first_rank_with(error.has_value());
  if (!failed) return true;
  const bool own = failed == communicator.rank();
  if (settings.runtime.resume == "auto") {
    if (own) log_warn("{} is skipped: {}", point.checkpoint, error->what());
    return false;
  }
  if (own) throw Error(*error);
  fail(ExitCode::unavailable, "{}: rank {} cannot read it and reports why", point.checkpoint,
       *failed);
}

// Older programs saved the scales of all FP8 GEMMs as one tensor, a column each, without a head
// that is the token table.
constexpr const char* kFp8Scales = "model.fp8_scales";
constexpr const char* kFp8HeadScales = "model.fp8_scales.head";

// Writes the tensors of a checkpoint's files into the state.
class Loader final : public StateVisitor {
 public:
  Loader(ResumePoint& point, std::int64_t rank, std::int64_t world_size)
      : checkpoint_(point.checkpoint),
        rank_(rank),
        world_size_(world_size),
        saved_ranks_(point.manifest.world_size) {
    for (auto& named : std::exchange(point.tensors, {})) tensors_.insert(std::move(named));
  }

  void operator()(const std::string& name, std::int64_t& value) override { read(name, value); }
  void operator()(const std::string& name, double& value) override { read(name, value); }
  void operator()(const std::string& name, bool& value) override { read(name, value); }
  void operator()(const std::string& name, const at::Tensor& value, Placement placement) override {
    if (placement == Placement::summed) return sum_parts(name, value);
    if (name.starts_with(kFp8Scales)) split_older_scale(name);
    // Older checkpoints lack the head's scales: they keep their initial values.
    if (name.starts_with(kFp8HeadScales) && !tensors_.contains(name)) return;
    value.copy_(find_like(name, value));
  }

 private:
  // Sums the saved parts of ranks rank_, rank_ + W, …: each saved part goes to one rank, the same
  // one if the number of ranks is unchanged.
  void sum_parts(const std::string& name, const at::Tensor& value) {
    value.zero_();
    for (auto saved = rank_; saved < saved_ranks_; saved += world_size_)
      value.add_(find_like(part_of_rank(name, saved), value).to(value.device()));
  }

  const at::Tensor& find_like(const std::string& name, const at::Tensor& value) const {
    const auto& found = find(name, value.sizes());
    REQUIRE(
        found.scalar_type() == value.scalar_type(), ExitCode::config,
        "{}: '{}' was saved in {}, and this run has it in {}; resume with the COMPUTE_DTYPE and "
        "on the kind of device that it was saved with, or set RESUME=never for a new run",
        checkpoint_, name, c10::toString(found.scalar_type()), c10::toString(value.scalar_type()));
    return found;
  }

  template <class Value>
  void read(const std::string& name, Value& value) {
    const auto& found = find(name, {});
    REQUIRE(found.scalar_type() == c10::CppTypeToScalarType<Value>::value, ExitCode::bad_data,
            "{}: '{}' is {}; it was saved by another program", checkpoint_, name,
            c10::toString(found.scalar_type()));
    value = *found.const_data_ptr<Value>();
  }

  // The GEMMs' names are visited in the order of the columns.
  void split_older_scale(const std::string& name) {
    const auto found = tensors_.find(kFp8Scales);
    if (found == tensors_.end() || found->second.dim() != 2) return;
    const auto& columns = found->second;
    if (older_scales_ < columns.size(1))
      tensors_[name] = columns.select(1, older_scales_++).contiguous();
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
  const std::int64_t rank_, world_size_, saved_ranks_;
  std::unordered_map<std::string, at::Tensor> tensors_;
  std::int64_t older_scales_ = 0;  // columns taken so far
};

}  // namespace

Beginning find_beginning(const Settings& settings, const Machine& machine,
                         const std::string& output_dir, Communicator& communicator) {
  const auto root = checkpoints_folder(output_dir);
  std::vector<std::string> choices;
  if (communicator.rank() == 0) choices = candidates(settings, root);
  for (std::size_t i = 0;; ++i) {
    const auto chosen = communicator.broadcast(i < choices.size() ? choices[i] : kNew);
    if (chosen == kNew) return {};
    if (chosen == kFinished) return {.resume = {}, .finished = true};
    std::error_code ignored;
    ResumePoint point{chosen, {}, fs::equivalent(fs::path(chosen) / "..", root, ignored)};
    if (!read_by_all(point, settings, machine, communicator)) continue;
    if (communicator.rank() == 0 && point.manifest.program != program_line()) {
      log_warn("{} was saved by {}, and this is {}: losses may differ in their last digits", chosen,
               point.manifest.program, program_line());
    }
    return {.resume = std::move(point)};
  }
}

void keep_schedule(const ResumePoint& point, RunConfig& run) {
  const auto& saved = point.manifest.settings;
  const auto found = saved.find(env_name("schedule_iterations"));
  if (run.schedule_iterations > 0 || found == saved.end()) return;
  const bool is_read = read_value(found->second, run.schedule_iterations);
  REQUIRE(is_read, ExitCode::bad_data,
          "{}: SCHEDULE_ITERATIONS is '{}' (expected a number of steps)", point.checkpoint,
          found->second);
}

void require_same_data(const ResumePoint& point, const DataConfig& data, const FixedTexts& identity,
                       std::optional<std::int64_t> train_tokens) {
  const auto& saved = point.manifest.settings;
  auto now = identity;
  if (!saved.contains(kTrainingData)) {
    now = {{"DATA_PATH", data.data_path}, {"TOKENIZER_PATH", data.tokenizer_path}};
    if (train_tokens) now["training tokens"] = value_text(*train_tokens);
  }
  const auto found = differences(saved, now);
  REQUIRE(found.empty(), ExitCode::config,
          "{}: saved with other data ({}); resume with the same data, which may be under another "
          "path, or set RESUME=never for a new run",
          point.checkpoint, fmt::join(found, "; "));
}

void go_back_to(const ResumePoint& point, const std::string& output_dir) {
  if (!point.same_run) return;
  const auto root = checkpoints_folder(output_dir);
  remove_finished(root);
  set_aside_newer(root, point.manifest.step);
}

void load_checkpoint(ResumePoint& point, SavedState& state, int rank, int world_size) {
  const at::NoGradGuard no_grad;
  Loader loader(point, rank, world_size);
  state.visit(loader);
}

FixedTexts data_identity(const DataConfig& data, const TokenSource& training) {
  FixedTexts identity{{kTrainingData, training.identity()}};
  if (data.tokenizer_path.empty()) return identity;
  const auto bytes = read_tokenizer_file(data.tokenizer_path);
  Xxh3 digest;
  digest.add(bytes.data(), bytes.size());
  const auto& pattern = data.tokenizer_pattern;
  identity["tokenizer"] = fmt::format("{} bytes, digest {:016x}{}", bytes.size(), digest.value(),
                                      pattern.empty() ? "" : ", pattern " + pattern);
  return identity;
}

}  // namespace tg
