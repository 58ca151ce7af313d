// PhasedTtt's state: saving between batches and at a stop, and resuming.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "config/entry.h"
#include "config/settings.h"
#include "config/types/text.h"
#include "eval/ttt/phased_ttt.h"

namespace tg {

namespace {

std::string in_slot(std::size_t slot, const std::string& name) {
  return fmt::format("slots.{}.{}", slot, name);
}

// The tensors that base training changes.
NamedTensors weights_of(const ParameterTable& table) {
  NamedTensors weights;
  for (const auto& [name, value] : table.named_values())
    weights.emplace_back("weights." + name, value);
  return weights;
}

std::int64_t bytes_of(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::string digest_of_bytes(const SplitTokens& tokens) {
  if (!tokens.has_bytes()) return "none";
  return digest_of({{"", tokens.target_bytes(0, 1, tokens.predictions(), 1)}});
}

}  // namespace

Metadata PhasedTtt::origin() const {
  Metadata origin{{"SEED", std::to_string(options_.seed)},
                  {"BOS_ID", std::to_string(options_.bos_id)},
                  {"EVAL_SEQ_LEN", std::to_string(options_.seq_len)},
                  {"RECORD_QUIRKS", value_text(options_.record_quirks)},
                  {"ranks", std::to_string(communicator_.world_size())},
                  {"stage", std::to_string(model_.stage())},
                  {"tokens", digest_of({{"", tokens_}})},
                  {"byte counts", digest_of_bytes(split_)},
                  {"weights", digest_of(table_.named_values())}};
  origin.insert(options_.settings.begin(), options_.settings.end());
  auto config = options_.config;
  for (const auto& entry : entries_of(config, Settings()))
    origin[env_name(entry.member)] = entry.value;
  return origin;
}

NamedTensors PhasedTtt::state() const {
  NamedTensors state{{"scored", scored_}};
  for (std::size_t i = 0; i < slots_.size(); ++i)
    for (const auto& [name, value] : slots_[i].state()) state.emplace_back(in_slot(i, name), value);
  state.insert(state.end(), weights_.begin(), weights_.end());
  return state;
}

void PhasedTtt::begin_saving() {
  for (auto& slot : slots_) slot.keep_state();
  origin_ = origin();
  const auto bytes = bytes_of(state()) + (phases_.empty() ? 0 : bytes_of(weights_of(table_)));
  pace_.emplace(options_.saving_fraction, bytes);
  log_info("ttt_state: {} bytes:{}{} (saved between batches, removed at the end)",
           options_.state_files->pattern(), bytes, communicator_.world_size() > 1 ? " a rank" : "");
}

void PhasedTtt::save() const {
  const auto& files = *options_.state_files;
  const PeerWatch::Work writing(communicator_.watch(), "writing " + files.path(phases_done_));
  files.save(phases_done_, state(), origin_);
}

bool PhasedTtt::try_to_save() {
  const auto began = Clock::now();
  bool saved = true;
  try {
    save();
  } catch (const Error& error) {
    log_warn("{}; a kill would lose what was scored since the last state", error.what());
    saved = false;
  }
  pace_->saved(seconds_since(began));
  return saved;
}

void PhasedTtt::keep_weights() {
  weights_ = weights_of(table_);
  for (auto& [name, value] : weights_)
    value = value.detach().to(at::kCPU, value.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

void PhasedTtt::save_after_phase() {
  if (!pace_) return;
  keep_weights();
  const bool saved = try_to_save();
  if (!communicator_.first_rank_with(!saved)) options_.state_files->remove_others(phases_done_);
}

bool PhasedTtt::asked_to_stop(int counter) {
  if (!options_.stop_requested) return false;
  if (options_.stop_requested()) {
    communicator_.claim(counter);
    return true;
  }
  constexpr double kEvery_s = 1;
  if (communicator_.world_size() == 1 || seconds_since(others_asked_) < kEvery_s) return false;
  others_asked_ = Clock::now();
  return communicator_.claim(counter, 0) > 0;
}

void PhasedTtt::save_and_stop() const {
  save();
  const auto times = times_scored();
  fail(ExitCode::stopped,
       "phased test-time training stopped with {} of {} batches scored, state saved in {}; start "
       "the same command again to go on",
       times.size() - static_cast<std::size_t>(std::ranges::count(times, 0)), batches_.size(),
       options_.state_files->path(phases_done_));
}

std::optional<std::size_t> PhasedTtt::phases_saved() const {
  const auto own = options_.state_files->phases();
  const auto highest =
      at::full({}, own.empty() ? -1 : *own.rbegin(), at::TensorOptions(device_).dtype(at::kLong));
  communicator_.max(highest).wait();
  for (auto phases = highest.item<std::int64_t>(); phases > 0; --phases)
    if (!communicator_.first_rank_with(!own.contains(phases)))
      return static_cast<std::size_t>(phases);
  const auto later = communicator_.first_rank_with(!own.empty() && !own.contains(0));
  REQUIRE(!later, ExitCode::missing_input,
          "rank {} has a state of test-time training of a later phase than all ranks have "
          "(expected a file {} of each rank with the same K); remove them to start over",
          *later, options_.state_files->pattern());
  return communicator_.first_rank_with(own.contains(0)) ? std::optional<std::size_t>(0)
                                                        : std::nullopt;
}

void PhasedTtt::load(std::size_t phases) {
  auto saved = state();
  const auto weights = phases > 0 ? weights_of(table_) : NamedTensors();
  saved.insert(saved.end(), weights.begin(), weights.end());
  options_.state_files->load(phases, saved, origin_);
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  for (std::size_t i = 0; i < slots_.size(); ++i)
    slots_[i].resume(by_name.at(in_slot(i, "generator")), by_name.at(in_slot(i, "inputs")));
}

void PhasedTtt::resume() {
  const auto phases = phases_saved();
  if (!phases) return;
  const auto& files = *options_.state_files;
  if (files.phases().contains(*phases)) load(*phases);
  phases_done_ = *phases;
  if (phases_done_ > 0) keep_weights();
  logged_.add(sums().on_host());
  const auto times = times_scored();
  const auto twice = std::ranges::find_if(times, [](double count) { return count > 1; });
  REQUIRE(twice == times.end(), ExitCode::config,
          "{}: two ranks' states of test-time training have scored batch {} (expected states of "
          "one evaluation); remove them to start over",
          files.path(*phases), twice - times.begin() + 1);
  for (std::size_t i = 0; i < times.size(); ++i) scored_before_[i] = times[i] > 0;
  files.remove_others(phases_done_);
}

std::vector<double> PhasedTtt::times_scored() const {
  const auto times = scored_.to(device_, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const auto host = sum_on_host(times, communicator_);
  const auto* const first = host.const_data_ptr<double>();
  return {first, first + host.numel()};
}

}  // namespace tg
