#include "store/event_fields.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/json_fields.h"

namespace tg {
namespace {

enum class Type { count, number, text };
struct Field {
  const char* name;
  Type type;
  bool needed = false;
};
constexpr bool kNeeded = true;

using Fields = std::map<std::string_view, std::vector<Field>>;

const Fields& known_fields() {
  static const Fields fields = {
      {"data", {{"planned_tokens", Type::number}, {"train_tokens", Type::count}}},
      {"start",
       {{"tokens_per_step", Type::count, kNeeded},
        {"world_size", Type::count, kNeeded},
        {"model_params", Type::count},
        {"val_tokens", Type::count},
        {"flops_per_token", Type::number},
        {"peak_flops", Type::number},
        {"dataset", Type::text},
        {"device", Type::text},
        {"compute_dtype", Type::text},
        {"attention_kernel", Type::text},
        {"threads", Type::text}}},
      {"train",
       {{"step", Type::count, kNeeded},
        {"train_loss", Type::number, kNeeded},
        {"train_time_ms", Type::number, kNeeded},
        {"lr_scale", Type::number, kNeeded},
        {"grad_norm", Type::number},
        {"tokens", Type::count},
        {"seq_len", Type::count},
        {"flops_per_token", Type::number},
        {"loss_scale", Type::number}}},
      {"timing",
       {{"step", Type::count, kNeeded},
        {"micro_steps", Type::count, kNeeded},
        {"forward_ms", Type::number},
        {"backward_ms", Type::number},
        {"grad_clip_ms", Type::number},
        {"optimizer_ms", Type::number},
        {"data_wait_ms", Type::number},
        {"comm_ms", Type::number},
        {"step_ms", Type::number}}},
      {"val",
       {{"step", Type::count, kNeeded},
        {"val_loss", Type::number, kNeeded},
        {"val_bpb", Type::number},
        {"val_time_ms", Type::number}}},
      {"resume", {{"step", Type::count, kNeeded}, {"checkpoint", Type::text}}},
      {"checkpoint",
       {{"step", Type::count, kNeeded},
        {"path", Type::text},
        {"bytes", Type::count},
        {"stall_ms", Type::number},
        {"write_ms", Type::number}}},
      {"batches",
       {{"step", Type::count, kNeeded},
        {"tokens_per_step", Type::count, kNeeded},
        {"seq_len", Type::count, kNeeded}}},
      {"late_qat", {{"step", Type::count, kNeeded}}},
      {"swa", {{"step", Type::count, kNeeded}}},
      {"skipped_step", {{"step", Type::count, kNeeded}}},
      {"stopping_early", {{"step", Type::count, kNeeded}}},
      {"warning",
       {{"kind", Type::text, kNeeded},
        {"step", Type::count},
        {"first_step", Type::count},
        {"pass", Type::count},
        {"data_wait_ms", Type::number},
        {"elapsed_ms", Type::number},
        {"text", Type::text}}},
      {"first_step", {{"ms_since_launch", Type::number}}},
      {"closing", {{"train_time_ms", Type::number}, {"val_time_ms", Type::number}}},
      {"memory", {{"peak_allocated_bytes", Type::count}, {"peak_reserved_bytes", Type::count}}},
      {"final",
       {{"name", Type::text, kNeeded},
        {"val_loss", Type::number, kNeeded},
        {"val_bpb", Type::number},
        {"eval_time_ms", Type::number}}},
      {"artifact",
       {{"format", Type::text},
        {"bytes", Type::count},
        {"code_bytes", Type::count},
        {"total_bytes", Type::count, kNeeded},
        {"limit_bytes", Type::count, kNeeded}}},
      {"exit", {{"code", Type::count, kNeeded}, {"step", Type::count}, {"text", Type::text}}},
  };
  return fields;
}

void check(const JsonFields& fields, const Field& field) {
  const auto& value = fields.get(field.name);
  if (field.type == Type::count) fields.count(field.name);
  if (field.type == Type::text) fields.text(field.name);
  if (field.type == Type::number) {
    fields.require(value.is_number() || value.is_null(), field.name, "a number or null");
  }
}

}  // namespace

void check_fields(const nlohmann::json& event, const std::string& place) {
  const auto known = known_fields().find(event.at("event").get_ref<const std::string&>());
  if (known == known_fields().end()) return;
  const JsonFields fields(event, place);
  for (const auto& field : known->second) {
    if (field.needed || event.contains(field.name)) check(fields, field);
  }
}

}  // namespace tg
