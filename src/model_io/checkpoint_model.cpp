#include "model_io/checkpoint_model.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "weights/tensors/tensor_check.h"

namespace tg {

namespace {

// Prefixes and names that RunState::visit() uses.
constexpr std::string_view kParameter = "parameter.", kAverage = "average.", kStage = "stage",
                           kFakeQuant = "fake_quant";

using ByName = std::unordered_map<std::string, at::Tensor>;

// The elements of a run's state that form its model.
struct ModelState {
  std::string folder;
  NamedTensors parameters;  // names without the prefix
  ByName averages;          // by name, with the prefix
  ModelRecord record{};

  const at::Tensor* find(const std::string& name) const {
    const auto found = averages.find(name);
    return found == averages.end() ? nullptr : &found->second;
  }
  std::int64_t count(const std::string& name) const {
    const auto* const found = find(name);
    REQUIRE(found && found->scalar_type() == at::kLong && found->numel() == 1, ExitCode::bad_data,
            "{}: has no number '{}'; it was saved by another program", folder, name);
    return *found->const_data_ptr<std::int64_t>();
  }
};

// Reads the record's fields from the state: older programs saved no record in the manifest. The
// recipe stays unknown.
void read_older_record(ModelRecord& record, std::string_view name, const at::Tensor& scalar) {
  if (name == kStage && scalar.scalar_type() == at::kLong && scalar.numel() == 1)
    record.stage = *scalar.const_data_ptr<std::int64_t>();
  if (name == kFakeQuant && scalar.scalar_type() == at::kBool && scalar.numel() == 1)
    record.qat = *scalar.const_data_ptr<bool>();
}

ModelState read_state(const std::string& folder) {
  const auto is_of_model = [](std::string_view name) {
    return name.starts_with(kParameter) || name.starts_with(kAverage) || name == kStage ||
           name == kFakeQuant;
  };
  const auto manifest = read_manifest(folder);
  ModelState state{folder, {}, {}, {.step = manifest.step}};
  for (auto& [name, tensor] : read_checkpoint(folder, manifest, is_of_model)) {
    if (name.starts_with(kParameter))
      state.parameters.emplace_back(name.substr(kParameter.size()), std::move(tensor));
    else if (name.starts_with(kAverage))
      state.averages.emplace(name, std::move(tensor));
    else
      read_older_record(state.record, name, tensor);
  }
  if (manifest.model) state.record = *manifest.model;
  REQUIRE(!state.parameters.empty(), ExitCode::bad_data,
          "{}: has no parameters; it was saved by another program", folder);
  return state;
}

// An average: the sum of copies of all parameters, divided by `divisor`.
struct Average {
  std::string name;                   // name in messages
  std::vector<std::string> prefixes;  // prefixes of the copies' names
  std::int64_t divisor = 1;
};

// Returns the average that WeightAverage::apply() would apply; nothing if there is none.
std::optional<Average> average_of(const ModelState& state) {
  if (const auto k = state.count("average.lawa_copies"); k > 1) {
    Average lawa{fmt::format("LAWA, k={}", k), {}, k};
    for (std::int64_t i = 0; i < k; ++i)
      lawa.prefixes.push_back(fmt::format("average.lawa.{}.", i));
    return lawa;
  }
  const bool keeps_ema = std::ranges::any_of(
      state.averages, [](const auto& named) { return named.first.starts_with("average.ema."); });
  if (keeps_ema) return Average{"EMA", {"average.ema."}};
  if (const auto k = state.count("average.swa_count"); k > 0)
    return Average{fmt::format("SWA, k={}", k), {"average.swa."}, k};
  return std::nullopt;
}

// Returns a copy of the parameter `like` as [numel]. It is stored whole, or in chunks NAME.0,
// NAME.1 (Shard::named).
at::Tensor copy_named(const ModelState& state, const std::string& name, const at::Tensor& like) {
  std::vector<at::Tensor> chunks;
  std::int64_t elements = 0;
  const auto add = [&](const at::Tensor* chunk) {
    if (!chunk) return false;
    chunks.push_back(chunk->reshape(-1));
    elements += chunk->numel();
    return true;
  };
  if (!add(state.find(name)))
    while (add(state.find(fmt::format("{}.{}", name, chunks.size())))) {
    }
  REQUIRE(!chunks.empty() && elements == like.numel(), ExitCode::bad_data,
          "{}: '{}' has {} elements (expected {}); it was saved by another program", state.folder,
          name, elements, like.numel());
  return at::cat(chunks);
}

NamedTensors averaged(const ModelState& state, const Average& average) {
  NamedTensors weights;
  for (const auto& [name, parameter] : state.parameters) {
    auto sum = copy_named(state, average.prefixes[0] + name, parameter);
    for (std::size_t i = 1; i < average.prefixes.size(); ++i)
      sum += copy_named(state, average.prefixes[i] + name, parameter);
    if (average.divisor > 1) sum.div_(static_cast<double>(average.divisor));
    weights.emplace_back(name, sum.view(parameter.sizes()).to(parameter.scalar_type()));
  }
  return weights;
}

CheckpointModel choose(ModelState state, WeightsChoice choice) {
  const at::NoGradGuard no_grad;
  const auto average = choice == WeightsChoice::raw ? std::nullopt : average_of(state);
  REQUIRE(
      average || choice != WeightsChoice::ema, ExitCode::usage,
      "WEIGHTS=ema: {} has no average of the weights (expected EMA, LAWA or SWA to be on in its "
      "run and to have begun); leave it out for the weights as trained",
      state.folder);
  if (!average)
    return {state.folder, std::move(state.parameters), "the weights as trained", state.record};
  return {state.folder, averaged(state, *average),
          fmt::format("the average ({}) of the weights", average->name), state.record};
}

// Returns the inode of a folder, which changes if the folder is replaced; nothing if it is removed.
std::optional<ino_t> identity(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

// Returns whether a retry may help, since a run may have been replacing the checkpoint.
bool is_file_error(const Error& error) {
  return error.exit_code() == ExitCode::bad_data || error.exit_code() == ExitCode::missing_input ||
         error.exit_code() == ExitCode::io;
}

}  // namespace

CheckpointModel read_checkpoint_model(const std::string& folder, WeightsChoice choice) {
  for (;;) {
    const auto before = identity(folder);
    try {
      return choose(read_state(folder), choice);
    } catch (const Error& error) {
      const auto now = identity(folder);
      if (!is_file_error(error) || before == now) throw;
      REQUIRE(now, ExitCode::missing_input,
              "{}: was removed while it was read (its run keeps the newest KEEP checkpoints); give "
              "the run's folder, which stands for its newest one",
              folder);
    }
  }
}

CheckpointModel read_newest_model(const std::string& root, WeightsChoice choice) {
  std::set<std::pair<std::int64_t, std::optional<ino_t>>> tried;
  std::string why;
  for (;;) {
    std::string folder;
    for (const auto step : checkpoint_steps(root)) {
      folder = checkpoint_folder(root, step);
      if (tried.emplace(step, identity(folder)).second) break;
      folder.clear();
    }
    REQUIRE(!folder.empty(), tried.empty() ? ExitCode::missing_input : ExitCode::bad_data,
            "{}: expected a valid checkpoint, found none{}", root, why);
    try {
      return choose(read_state(folder), choice);
    } catch (const Error& error) {
      if (!is_file_error(error)) throw;
      why = fmt::format(" ({})", error.what());
      if (identity(folder)) log_warn("{} is skipped: {}", folder, error.what());
    }
  }
}

}  // namespace tg
