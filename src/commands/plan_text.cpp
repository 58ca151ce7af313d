#include <fmt/format.h>

#include <map>
#include <vector>

#include "commands/commands.h"
#include "commands/tensor_table.h"
#include "config/derived.h"
#include "config/mode.h"
#include "config/types/text.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

using Table = std::vector<std::vector<std::string>>;

std::string attention_text(const LayerCall& call, bool documents) {
  if (!call.attends) return "nothing";
  auto text = call.window > 0
                  ? fmt::format("the last {} {}", call.window, call.paired ? "elements" : "tokens")
                  : std::string("all tokens before");
  if (documents) text += " in its segment";
  if (call.exclusive) text += ", exclusive";
  if (call.value_scale) text += ", value embedding";
  if (call.paired) text += ", paired heads";
  if (call.key_offset) text += ", key offset";
  if (call.composed_window > 0)
    text += fmt::format(", composed over the last {}", call.composed_window);
  return text;
}

std::string calls_text(const Pass& pass, bool documents) {
  Table rows{{"call", "block", "lanes", "skip from call", "attention sees"}};
  std::vector<std::int64_t> kept(static_cast<std::size_t>(pass.slots));  // call index by slot
  std::int64_t previous = 0;
  for (const auto& call : pass.calls) {
    if (call.keep_input) kept[static_cast<std::size_t>(*call.keep_input)] = previous;
    const auto& skip = call.skip;
    std::string from = "-";
    if (skip.weights)
      from = fmt::format("{}{}", skip.slot ? kept[static_cast<std::size_t>(*skip.slot)] : previous,
                         skip.gates ? ", gated" : "");
    rows.push_back({fmt::to_string(call.index), fmt::to_string(call.block),
                    call.lanes.residual ? "two" : "one", from, attention_text(call, documents)});
    previous = call.index;
  }
  return table_text(rows, /*left=*/rows[0].size());
}

// Describes the segments within which attention stays.
std::string segments_text(const Settings& settings) {
  const auto every = segment_limit(settings) > 0 ? fmt::format(", and every {} tokens of one",
                                                               value_text(segment_limits(settings)))
                                                 : "";
  return fmt::format("segments begin with a row and with a document{} (DOCUMENT_ATTENTION)\n",
                     every);
}

std::string stage_title(const Stage& stage) {
  if (stage.from == 0 || stage.evaluates_alone) return stage.title;
  if (stage.from == Stage::kNever) return stage.title + ", which never begins";
  return stage.from < 1
             ? fmt::format("{}, from {} of the schedule on", stage.title, value_text(stage.from))
             : fmt::format("{}, from step {:.0f} on", stage.title, stage.from);
}

const char* name_of(UpdateRule rule, const OptimConfig& optim) {
  switch (rule) {
    case UpdateRule::adamw:
      return "AdamW";
    case UpdateRule::adam:
      return "Adam";
    case UpdateRule::muon:
      return optim.normuon ? "NorMuon" : "Muon";
    case UpdateRule::none:
    case UpdateRule::constant:
      break;
  }
  return "never updated";
}

// Returns the update rule and the setting of its learning rate.
std::string update_name(const Update& update, const OptimConfig& optim) {
  const std::pair<const Update*, const char*> rates[] = {{&Update::muon, "MATRIX_LR"},
                                                         {&Update::embedding, "EMBED_LR"},
                                                         {&Update::tied_embedding, "TIED_EMBED_LR"},
                                                         {&Update::scalar, "SCALAR_LR"},
                                                         {&Update::head, "HEAD_LR"}};
  for (const auto& [known, rate] : rates) {
    if (known->lr == update.lr) return fmt::format("{}, {}", name_of(update.rule, optim), rate);
  }
  return name_of(update.rule, optim);
}

std::string parameters_text(const ModelSpec& spec, const Settings& settings) {
  const auto table = make_parameters(spec, settings, at::kFloat, at::kMeta);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> groups;  // tensors and elements
  for (const auto& row : table.rows()) {
    auto& [tensors, elements] = groups[update_name(row.update, settings.optim)];
    ++tensors;
    elements += row.value.numel();
  }
  Table rows{{"updated by", "tensors", "parameters"}};
  for (const auto& [name, counts] : groups)
    rows.push_back({name, fmt::to_string(counts.first), fmt::to_string(counts.second)});
  rows.push_back(
      {"all", fmt::to_string(table.rows().size()), fmt::to_string(table.element_count())});
  return table_text(rows, /*left=*/1);
}

}  // namespace

std::string plan_text(const Settings& settings) {
  const auto spec = model_spec(settings);
  auto text =
      fmt::format("recipe {}: {} blocks of {} channels\n", choice_name(settings.model.recipe),
                  settings.model.num_layers, settings.model.model_dim);
  const bool documents = mode::segments_attention(settings);
  if (documents) text += segments_text(settings);
  for (const auto& stage : spec.plan.stages)
    text += fmt::format("\n{}: {} layer calls\n\n{}", stage_title(stage), stage.pass.calls.size(),
                        calls_text(stage.pass, documents));
  return text + "\n" + parameters_text(spec, settings);
}

}  // namespace tg
