#include "commands/script_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "weights/foreign_weights.h"
#include "weights/script_names.h"
#include "weights/weights_file.h"
#include "weights/wrapped_names.h"

namespace tg {
namespace {

constexpr std::int64_t kHeadChannels = 128;

// The model's settings in configs/speedrun_124m.env.
constexpr struct {
  const char *name, *value;
} kFixed[] = {{"TOKENIZER_PATH", ""},   {"MLP_NEGATIVE_SLOPE", "0"}, {"TIE_EMBEDDINGS", "0"},
              {"UNET_SKIPS", "0"},      {"SMEAR_GATE", "0"},         {"BIGRAM_VOCAB_SIZE", "0"},
              {"XSA_LAST_N", "0"},      {"VE_ENABLED", "0"},         {"LN_SCALE", "0"},
              {"LAYER_SCALES", "0"},    {"RESID_MIX", "scalar"},     {"VALUE_RESIDUAL", "blend"},
              {"QK_GAIN_INIT", "0"},    {"ROPE_DIMS", "0"},          {"LOGIT_SOFTCAP", "30"},
              {"TRAIN_SEQ_LEN", "1024"}};

}  // namespace

std::vector<Assignment> script_settings(const ModelPath& model) {
  if (model.kind != ModelKind::file || model.artifact != Artifact::none) return {};
  auto tensors = load_weights(model.path).tensors;
  unwrap_names(tensors, model.path);
  refuse_foreign_names(tensors, model.path);
  const auto sizes = script_model(tensors);
  if (!sizes) return {};
  std::vector<Assignment> settings;
  for (const auto& [name, value] : kFixed) settings.push_back({name, value, 0});
  const auto heads = std::max<std::int64_t>(1, sizes->channels / kHeadChannels);
  const std::pair<const char*, std::int64_t> inferred[] = {
      {"VOCAB_SIZE", sizes->vocabulary}, {"NUM_LAYERS", sizes->layers},
      {"MODEL_DIM", sizes->channels},    {"NUM_HEADS", heads},
      {"NUM_KV_HEADS", heads},           {"MLP_MULT", sizes->hidden / sizes->channels}};
  for (const auto& [name, value] : inferred)
    settings.push_back({name, fmt::format("{}", value), 0});
  return settings;
}

}  // namespace tg
