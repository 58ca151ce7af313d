#include "recipes/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <span>
#include <string>
#include <utility>

#include "config/derived.h"

namespace tg {

namespace {

std::int64_t encoder_length(const std::vector<std::int64_t>& order) {
  return std::ssize(order) / 2;
}

LayerCall call_of(const ModelConfig& config, std::int64_t block) {
  const auto root = std::sqrt(static_cast<double>(block + 1));
  return {.index = 0,
          .block = block,
          .norm_scale = config.ln_scale ? 1.0 / root : 1.0,
          .window = attention_window(config, block),
          .exclusive = block >= config.num_layers - config.xsa_last_n};
}

// The newest output that the encoder pushes is the input of the decoder's first entry and needs no
// slot; an earlier entry's output is saved as the input of the next entry.
class PassBuilder {
 public:
  PassBuilder(const ModelConfig& config, const PassParameters& parameters)
      : config_(config), parameters_(parameters) {}

  Pass build(const std::vector<std::int64_t>& order) {
    encoder_ = encoder_length(order);
    for (std::int64_t i = 0; i < std::ssize(order); ++i) {
      const auto block = order[static_cast<std::size_t>(i)];
      auto call = call_of(config_, block);
      if (i >= encoder_ && !enter_decoder(call, i - encoder_)) continue;
      call.index = std::ssize(pass_.calls);
      pass_.calls.push_back(call);
    }
    pass_.calls.back().last = true;
    return std::move(pass_);
  }

 private:
  // Sets the entry's lanes and skip; returns false if the model leaves out the entry.
  bool enter_decoder(LayerCall& call, std::int64_t entry) {
    const auto first = config_.lanes.parallel_start_layer;
    const bool in_lanes = first > 0 && call.block >= first;
    if (!in_lanes && lanes_began_) return false;
    lanes_began_ = in_lanes;
    if (in_lanes)
      call.lanes = {
          .residual = parameters_.lane_residual, .post = parameters_.lane_post, .row = call.block};
    if (parameters_.skip_weights && entry < encoder_) add_skip(call, entry);
    return true;
  }

  void add_skip(LayerCall& call, std::int64_t entry) {
    call.skip = {
        .weights = parameters_.skip_weights, .gates = parameters_.skip_gates, .row = entry};
    if (entry == 0) return;
    const auto slot = encoder_ - 1 - entry;
    call.skip.slot = slot;
    pass_.calls[static_cast<std::size_t>(slot + 1)].keep_input = slot;
    pass_.slots = std::max(pass_.slots, slot + 1);
  }

  const ModelConfig& config_;
  const PassParameters& parameters_;
  std::int64_t encoder_ = 0;
  bool lanes_began_ = false;
  Pass pass_;
};

// Numbers a pass without recurrence: each layer call has the index of its block's first call in
// `last`.
void number_as_in(const Pass& last, Pass& pass) {
  for (auto& call : pass.calls)
    call.index = std::ranges::find(last.calls, call.block, &LayerCall::block)->index;
}

// The blocks of a pass in order; with recurrence 0 … LOOP_START−1, NUM_LOOPS+1 times LOOP_START …
// LOOP_END, then the rest. The first half of these entries, rounded down, is the encoder, the
// second half the decoder.
std::vector<std::int64_t> block_order(const ModelConfig& config, bool recurs) {
  const auto& [loops, start, end, at] = config.recurrence;
  std::vector<std::int64_t> order;
  for (std::int64_t block = 0; block < config.num_layers; ++block) {
    order.push_back(block);
    if (!recurs || block != end) continue;
    for (std::int64_t loop = 0; loop < loops; ++loop)
      for (std::int64_t again = start; again <= end; ++again) order.push_back(again);
  }
  return order;
}

std::string text_of(std::span<const std::int64_t> blocks) {
  return fmt::format("[{}]", fmt::join(blocks, ", "));
}

Stage make_stage(const ModelConfig& config, const PassParameters& parameters, bool recurs) {
  const auto order = block_order(config, recurs);
  const auto encoder = static_cast<std::size_t>(encoder_length(order));
  return {.pass = PassBuilder(config, parameters).build(order),
          .encoder = text_of(std::span(order).first(encoder)),
          .decoder = text_of(std::span(order).subspan(encoder))};
}

}  // namespace

std::int64_t skip_count(const ModelConfig& config) {
  return encoder_length(block_order(config, /*recurs=*/true));
}

std::vector<Stage> make_stages(const ModelConfig& config, const PassParameters& parameters) {
  std::vector<Stage> stages{make_stage(config, parameters, /*recurs=*/true)};
  if (config.recurrence.num_loops == 0) return stages;
  const double from = config.recurrence.enable_looping_at;
  auto& recurrence = stages.front();
  recurrence.from = from < 1 ? from : Stage::kNever;
  recurrence.title = "in recurrence";
  recurrence.log_name = "layer_loop";
  recurrence.warm_up_log_name = "loop_warmup";
  auto before = make_stage(config, parameters, /*recurs=*/false);
  before.title = "before recurrence";
  number_as_in(recurrence.pass, before.pass);
  stages.insert(stages.begin(), std::move(before));
  return stages;
}

}  // namespace tg
