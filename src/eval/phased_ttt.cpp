#include "eval/phased_ttt.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/python_format.h"
#include "config/types/text.h"

namespace tg {

namespace {

std::span<const std::uint16_t> span_of(const at::Tensor& tokens) {
  return {tokens.const_data_ptr<std::uint16_t>(), static_cast<std::size_t>(tokens.numel())};
}

std::string four_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "none";
}

std::string in_slot(std::size_t slot, const std::string& name) {
  return fmt::format("slots.{}.{}", slot, name);
}

// The work until each batch is scored, in inputs of a row.
std::vector<std::int64_t> inputs_until(std::span<const DocumentBatch> batches,
                                       const ChunkOptions& options) {
  std::vector<std::int64_t> until;
  std::int64_t inputs = 0;
  for (const auto& batch : batches) {
    const auto chunks = chunks_of_document(batch.longest() - 1, options);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) inputs += row_length(chunk, options);
    until.push_back(inputs);
  }
  return until;
}

}  // namespace

PhasedTtt::PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
                     const PhasedTttOptions& options, at::Device device, Communicator& communicator)
    : model_(model),
      table_(table),
      options_(options),
      device_(device),
      communicator_(communicator),
      scorer_(model, tokens, options_.config, device),
      tokens_(tokens.inputs(0, 1, tokens.predictions() + 1, 1).view(-1).cpu()) {
  const auto& config = options_.config;
  if (std::ranges::find(span_of(tokens_), options.bos_id) == span_of(tokens_).end())
    log_warn_once(
        "no token of the split is BOS_ID={}, so that all of it is scored as one document; set "
        "BOS_ID to the token that begins a document",
        options.bos_id);
  auto documents =
      find_documents_to_score(span_of(tokens_), options.bos_id, config.val_doc_fraction);
  documents_ = std::ssize(documents);
  batches_ = batch_by_length(std::move(documents), config.ttt_batch_size);
  prefix_documents_ = std::min(documents_, config.phased_ttt_prefix_docs);
  boundaries_ = phase_boundaries(prefix_documents_, config.phased_ttt_num_phases);
  phases_ = plan_phases(batches_, boundaries_);
  inputs_until_ = inputs_until(batches_, scorer_.chunks());
  scored_ = at::zeros({std::ssize(batches_)}, at::kDouble);
  scored_before_.resize(batches_.size());
}

Score PhasedTtt::run() {
  began_ = Clock::now();
  log_plan();
  model_.set_fake_quant(false);
  const auto concurrent = options_.config.ttt_concurrent_batches;
  slots_.reserve(static_cast<std::size_t>(concurrent));
  for (std::int64_t i = 0; i < concurrent; ++i)
    slots_.emplace_back(model_, scorer_, options_.config, options_.seed, device_, concurrent > 1);
  resume();
  model_.cast_weights();
  const EtaLine eta("phased test-time training", inputs_scored_before());
  while (phases_done_ < phases_.size()) {
    const auto& phase = phases_[phases_done_];
    score_batches(phase.batches, eta);
    train_on(phase);
  }
  score_batches(std::ssize(batches_), eta);
  auto all = sums();
  slots_.clear();
  all.add_other_ranks(communicator_);
  const PeerWatch::Scope waiting(communicator_.watch());
  const auto score = all.score();
  remove_state();
  return score;
}

void PhasedTtt::score_batches(std::int64_t end, const EtaLine& eta) {
  std::vector<std::size_t> unscored;
  for (std::size_t place = 0; place < static_cast<std::size_t>(end); ++place)
    if (!scored_before_[place]) unscored.push_back(place);
  const auto counter = communicator_.make_counter();
  bool stops = false;
  const auto claim = [&]() -> const DocumentBatch* {
    stops = stops || told_to_stop();
    // One that stops claims all that are left, so that no rank begins another.
    const auto claimed = communicator_.claim(counter, stops ? std::ssize(unscored) : 1);
    if (stops || claimed >= std::ssize(unscored)) return nullptr;
    return &batches_[unscored[static_cast<std::size_t>(claimed)]];
  };
  std::vector<ScoringSlot*> open;  // that score or may find another batch
  for (auto& slot : slots_) {
    slot.follow_current_stream();
    open.push_back(&slot);
  }
  while (!open.empty()) {
    const auto next = std::ranges::min_element(open, {}, &ScoringSlot::inputs);
    auto& slot = **next;
    if (slot.is_scoring()) {
      slot.score_next_chunk();
      communicator_.progress();
      if (!slot.is_scoring()) record(slot, eta);
    } else if (const auto* const batch = claim()) {
      slot.begin(*batch);
    } else {
      open.erase(next);
    }
  }
  if (communicator_.first_rank_with(stops)) save_and_stop();
  std::fill_n(scored_before_.begin(), end, true);
}

void PhasedTtt::record(const ScoringSlot& slot, const EtaLine& eta) {
  const auto place = &slot.batch() - batches_.data();
  scored_[place] = 1;
  // Only who logs a score waits for the device to read it. Other ranks' hosts run ahead as far as
  // the driver queues their launches.
  if (communicator_.rank() == 0) log_batch(slot);
  // Of batches in flight a later one may end before.
  furthest_ = std::max(furthest_, inputs_until_[static_cast<std::size_t>(place)]);
  eta(furthest_, inputs_until_.back());
}

ScoreSums PhasedTtt::sums() const {
  ScoreSums all(device_);
  for (const auto& slot : slots_) all.add(slot.sums());
  return all;
}

void PhasedTtt::train_on(const TttPhase& phase) {
  log_info("ttpp: phase:{}/{} pd:{} gd:{} t:{:.1f}s", phases_done_ + 1, boundaries_.size(),
           phase.scored, phase.training.size(), seconds_since(began_));
  const auto joined = join_documents(span_of(tokens_), phase.training, options_.bos_id,
                                     /*repeat_bos=*/options_.record_quirks);
  train_base(model_, table_, joined,
             {.config = options_.config,
              .seq_len = options_.seq_len,
              .bos_id = options_.bos_id,
              .scale_loss = options_.scale_loss},
             device_, communicator_);
  for (auto& slot : slots_) slot.restart();
  communicator_.barrier();
  ++phases_done_;
  log_info("ttpr: phase:{}/{} t:{:.1f}s", phases_done_, boundaries_.size(), seconds_since(began_));
}

std::int64_t PhasedTtt::inputs_scored_before() const {
  const auto first = std::ranges::find(scored_before_, false) - scored_before_.begin();
  return first > 0 ? inputs_until_[static_cast<std::size_t>(first) - 1] : 0;
}

bool PhasedTtt::told_to_stop() const {
  return options_.stop_requested && options_.stop_requested();
}

Metadata PhasedTtt::origin() const {
  return ttt_origin(options_.config, {{"SEED", std::to_string(options_.seed)},
                                      {"BOS_ID", std::to_string(options_.bos_id)},
                                      {"EVAL_SEQ_LEN", std::to_string(options_.seq_len)},
                                      {"RECORD_QUIRKS", value_text(options_.record_quirks)},
                                      {"ranks", std::to_string(communicator_.world_size())},
                                      {"tokens", digest_of({{"", tokens_}})},
                                      {"weights", digest_of(table_.named_values())}});
}

NamedTensors PhasedTtt::state() const {
  NamedTensors state{{"phases", at::full({}, static_cast<double>(phases_done_), at::kDouble)},
                     {"scored", scored_}};
  for (std::size_t i = 0; i < slots_.size(); ++i)
    for (const auto& [name, value] : slots_[i].state()) state.emplace_back(in_slot(i, name), value);
  for (const auto& [name, value] : table_.named_values())
    state.emplace_back("weights." + name, value);
  return state;
}

void PhasedTtt::save_and_stop() const {
  const auto& path = options_.state_path;
  {
    const PeerWatch::Work writing(communicator_.watch(), "writing " + path);
    save_ttt_state(path, state(), origin_);
  }
  const auto scored = scored_by_all();
  fail(ExitCode::stopped,
       "phased test-time training stopped with {} of {} batches scored, state saved in {}; start "
       "the same command again to go on",
       std::ranges::count(scored, true), batches_.size(), path);
}

void PhasedTtt::resume() {
  const auto& path = options_.state_path;
  if (!path.empty()) origin_ = origin();
  const bool found = !path.empty() && std::filesystem::exists(path);
  if (!communicator_.first_rank_with(found)) return;
  const auto lacking = communicator_.first_rank_with(!found);
  REQUIRE(!lacking, ExitCode::missing_input,
          "rank {} has no state of test-time training, and another rank has one (expected a file "
          "of each rank, such as {}); remove them to begin anew",
          *lacking, path);
  auto saved = state();
  load_ttt_state(path, saved, origin_);
  phases_done_ = static_cast<std::size_t>(saved[0].second.item<double>());
  // Else the ranks would not take part in the same phases.
  const auto of_first = communicator_.broadcast(std::to_string(phases_done_));
  const auto other = communicator_.first_rank_with(std::to_string(phases_done_) != of_first);
  REQUIRE(!other, ExitCode::config,
          "{}: the ranks' states of test-time training are of different stops (expected that of "
          "rank {} to have {} phases done, as rank 0's); remove them to begin anew",
          path, *other, of_first);
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  for (std::size_t i = 0; i < slots_.size(); ++i)
    slots_[i].resume(by_name.at(in_slot(i, "generator")), by_name.at(in_slot(i, "inputs")));
  logged_.add(sums().on_host());
  scored_before_ = scored_by_all();
}

void PhasedTtt::remove_state() const {
  const auto& path = options_.state_path;
  std::error_code error;
  if (!path.empty()) std::filesystem::remove(path, error);
  if (error)
    log_warn("{}: this state of test-time training is used up but cannot be removed ({})", path,
             error.message());
}

std::vector<bool> PhasedTtt::scored_by_all() const {
  const auto times = scored_.to(device_, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  communicator_.sum(times).wait();
  const PeerWatch::Scope waiting(communicator_.watch());
  const auto host = times.cpu();
  const auto* const first = host.const_data_ptr<double>();
  std::vector<bool> scored;
  for (std::int64_t i = 0; i < host.numel(); ++i) scored.push_back(first[i] > 0);
  return scored;
}

void PhasedTtt::log_plan() const {
  log_info("ttt_phased: total_docs:{} prefix_docs:{} suffix_docs:{} num_phases:{} boundaries:{}",
           documents_, prefix_documents_, documents_ - prefix_documents_, boundaries_.size(),
           py_repr(boundaries_));
  const auto concurrent = options_.config.ttt_concurrent_batches;
  if (concurrent > 1) log_info("ttt_concurrent_batches:{}", concurrent);
}

void PhasedTtt::log_batch(const ScoringSlot& slot) {
  const auto& batch = slot.batch();
  const auto sums = slot.batch_sums_on_host();
  logged_.add(sums);
  const auto own = sums.score(), running = logged_.score();
  log_info("ttp: b{}/{} bl:{:.4f} bb:{} rl:{:.4f} rb:{} dl:{}-{} gd:{}", batch.index + 1,
           batches_.size(), own.loss, four_digits(own.bpb), running.loss, four_digits(running.bpb),
           batch.documents.front().length, batch.longest(),
           phases_done_ == boundaries_.size() ? 1 : 0);
}

}  // namespace tg
