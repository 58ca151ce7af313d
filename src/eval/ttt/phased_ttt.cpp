#include "eval/ttt/phased_ttt.h"

#include <algorithm>

#include "base/log.h"
#include "base/python_format.h"
#include "data/ids.h"

namespace tg {

namespace {

bool has_token(const Ids& tokens, std::int64_t id) {
  const auto is_in = [&](auto ids) {
    return find_token(ids, static_cast<TokenId>(id)) < ids.size();
  };
  return std::visit(is_in, tokens);
}

std::string four_digits(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "none";
}

}  // namespace

PhasedTtt::PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
                     const PhasedTttOptions& options, at::Device device, Communicator& communicator)
    : model_(model),
      table_(table),
      options_(options),
      device_(device),
      communicator_(communicator),
      split_(tokens),
      scorer_(model, tokens, options_.config, device),
      tokens_(tokens.inputs(0, 1, tokens.predictions() + 1, 1).view(-1).cpu()) {
  const auto& config = options_.config;
  if (!has_token(ids_of(tokens_), options.bos_id))
    log_warn_once(
        "no token of the split is BOS_ID={}, so that all of it is scored as one document; set "
        "BOS_ID to the token that begins a document",
        options.bos_id);
  auto documents =
      find_documents_to_score(ids_of(tokens_), options.bos_id, config.val_doc_fraction);
  documents_ = std::ssize(documents);
  batches_ = batch_by_length(std::move(documents), config.ttt_batch_size);
  prefix_documents_ = std::min(documents_, config.phased_ttt_prefix_docs);
  boundaries_ = phase_boundaries(prefix_documents_, config.phased_ttt_num_phases);
  phases_ = plan_phases(batches_, boundaries_);
  std::int64_t inputs = 0;
  for (const auto& batch : batches_) {
    const auto chunks = chunks_of_document(batch.longest() - 1, scorer_.chunks());
    for (std::int64_t i = 0; i < chunks; ++i) inputs += row_length(i, scorer_.chunks());
    inputs_until_.push_back(inputs);
  }
  scored_ = at::zeros({std::ssize(batches_)}, at::kDouble);
  scored_before_.resize(batches_.size());
}

Score PhasedTtt::run() {
  began_ = Clock::now();
  log_info("ttt_phased: total_docs:{} prefix_docs:{} suffix_docs:{} num_phases:{} boundaries:{}",
           documents_, prefix_documents_, documents_ - prefix_documents_, boundaries_.size(),
           py_repr(boundaries_));
  const auto concurrent = options_.config.ttt_concurrent_batches;
  if (concurrent > 1) log_info("ttt_concurrent_batches:{}", concurrent);
  model_.set_fake_quant(false);
  slots_.reserve(static_cast<std::size_t>(concurrent));
  for (std::int64_t i = 0; i < concurrent; ++i)
    slots_.emplace_back(model_, scorer_, options_.config, options_.seed, device_, concurrent > 1);
  if (options_.state_files) {
    begin_saving();
    resume();
  }
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
  const auto score = all.score_of_all_ranks(communicator_);
  if (options_.state_files) options_.state_files->remove_others({});
  return score;
}

void PhasedTtt::score_batches(std::int64_t end, const EtaLine& eta) {
  std::vector<std::size_t> unscored;
  for (std::size_t place = 0; place < static_cast<std::size_t>(end); ++place)
    if (!scored_before_[place]) unscored.push_back(place);
  const auto counter = communicator_.make_counter(), stopping = communicator_.make_counter();
  const auto claim = [&]() -> const DocumentBatch* {
    const auto claimed = communicator_.claim(counter);
    if (claimed >= std::ssize(unscored)) return nullptr;
    return &batches_[unscored[static_cast<std::size_t>(claimed)]];
  };
  std::vector<ScoringSlot*> open;  // that are scoring or may claim another batch
  for (auto& slot : slots_) {
    slot.follow_current_stream();
    open.push_back(&slot);
  }
  bool stops = false;
  while (!(stops = asked_to_stop(stopping)) && !open.empty()) {
    const auto next = std::ranges::min_element(open, {}, &ScoringSlot::inputs);
    auto& slot = **next;
    if (slot.is_scoring()) {
      slot.score_next_chunk();
      communicator_.progress();
      if (!slot.is_scoring()) {
        record(slot, eta);
        save_between_batches();
      }
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
  // Only rank 0, which logs scores, waits for the device to read them; other ranks' hosts run ahead
  // as far as the driver queues their launches.
  if (communicator_.rank() == 0) log_batch(slot);
  // A later batch in flight may finish first.
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
  const auto joined = join_documents(ids_of(tokens_), phase.training, options_.bos_id,
                                     /*repeat_bos=*/options_.record_quirks);
  if (!train_base(model_, table_, joined, options_, device_, communicator_)) save_and_stop();
  for (auto& slot : slots_) slot.restart();
  communicator_.barrier();
  ++phases_done_;
  save_after_phase();
  log_info("ttpr: phase:{}/{} t:{:.1f}s", phases_done_, boundaries_.size(), seconds_since(began_));
}

std::int64_t PhasedTtt::inputs_scored_before() const {
  const auto first = std::ranges::find(scored_before_, false) - scored_before_.begin();
  return first > 0 ? inputs_until_[static_cast<std::size_t>(first) - 1] : 0;
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
