#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/check.h"
#include "config/derived.h"
#include "config/mode.h"
#include "config/resolved.h"
#include "recipes/recipe.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

std::string preset_path(const std::string& name) {
  return SOURCE_DIR "/configs/" + name + ".env";
}
Settings preset(const std::string& name) {
  return parse({"--config", preset_path(name)}, {}, set_recipe_defaults).settings;
}

void expect_values(const Settings& settings,
                   const std::vector<std::pair<const char*, const char*>>& values) {
  for (const auto& [member, text] : values)
    EXPECT_EQ(setting_text(settings, member), text) << member;
}

TEST(Presets, AllParseAndFitOneToEightRanks) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".env") continue;
    ++count;
    const auto settings =
        parse({"--config", entry.path().string()}, {}, set_recipe_defaults).settings;
    for (const int world_size : {1, 2, 4, 8}) {
      EXPECT_EQ(find_conflicts(settings, world_size), std::vector<std::string>())
          << entry << world_size;
    }
    std::string first_line;
    std::getline(std::ifstream(entry.path()) >> std::ws, first_line);
    EXPECT_TRUE(first_line.starts_with("# ")) << entry << " says nothing of what it reproduces";
  }
  EXPECT_GE(count, 6);
}

TEST(Presets, RecordIsTheSubmissionsRunCommand) {
  expect_values(preset("record"), {{"num_layers", "11"},
                                   {"bigram_vocab_size", "1536"},
                                   {"xsa_last_n", "4"},
                                   {"ema_decay", "0.997"},
                                   {"swa_every", "50"},
                                   {"rope_dims", "16"},
                                   {"ln_scale", "1"},
                                   {"late_qat_threshold", "0.15"},
                                   {"ve_layers", "9,10"},
                                   {"ttt_enabled", "1"},
                                   {"ttt_freeze_blocks", "0"},
                                   {"muon_wd", "0.04"},
                                   {"adam_wd", "0.04"},
                                   {"matrix_lr", "0.025"},
                                   {"scalar_lr", "0.025"},
                                   {"tied_embed_lr", "0.035"},
                                   {"muon_momentum", "0.99"},
                                   {"muon_momentum_warmup_start", "0.92"},
                                   {"muon_momentum_warmup_steps", "1500"},
                                   {"warmdown_iters", "3500"},
                                   {"iterations", "9000"},
                                   {"eval_stride", "64"},
                                   {"record_quirks", "0"}});
}

TEST(Presets, BaselineIsThePrefetchSubmissions) {
  expect_values(preset("baseline"), {{"num_layers", "9"},
                                     {"mlp_mult", "2.0"},
                                     {"val_loss_every", "1000"},
                                     {"train_log_every", "200"},
                                     {"warmdown_iters", "1200"},
                                     {"train_batch_tokens", "524288"},
                                     {"train_seq_len", "1024"},
                                     {"tied_embed_lr", "0.05"},
                                     {"matrix_lr", "0.04"},
                                     {"scalar_lr", "0.04"},
                                     {"muon_momentum", "0.95"},
                                     {"muon_momentum_warmup_start", "0.85"},
                                     {"muon_momentum_warmup_steps", "500"},
                                     {"muon_wd", "0.0"},
                                     {"adam_wd", "0.0"},
                                     {"grad_clip_norm", "0.0"}});
}

TEST(Presets, SpeedrunIsTheScriptOfNovember2024) {
  const auto speedrun = preset("speedrun_124m");
  expect_values(speedrun, {{"num_layers", "12"},
                           {"model_dim", "768"},
                           {"num_heads", "6"},
                           {"num_kv_heads", "6"},
                           {"vocab_size", "50304"},
                           {"train_seq_len", "1024"},
                           {"train_batch_tokens", "524288"},
                           {"grad_accum_steps", "0"},
                           {"iterations", "3242"},
                           {"warmdown_iters", "926"},
                           {"val_tokens", "10485760"},
                           {"val_loss_every", "125"},
                           {"loader_order", "strided"},
                           {"mlp_negative_slope", "0.0"},
                           {"value_residual", "blend"},
                           {"resid_mix", "scalar"},
                           {"embed_lr", "0.3"},
                           {"head_lr", "0.002"},
                           {"matrix_lr", "0.02"},
                           {"tokenizer_path", ""},
                           {"record_quirks", "0"}});
  // Averaging falls through LAWA and EMA to SWA, so each must be off.
  expect_values(speedrun, {{"lawa_enabled", "0"}, {"ema_enabled", "0"}, {"swa_enabled", "0"}});
}

TEST(Presets, Gpt124mDiffersFromTheSpeedrunByItsActivationAlone) {
  auto settings = preset("gpt124m");
  EXPECT_EQ(settings.model.mlp_negative_slope, 0.5);
  settings.model.mlp_negative_slope = 0;
  EXPECT_EQ(settings_text(settings), settings_text(preset("speedrun_124m")));
}

TEST(Presets, Gpt124mDocumentsDiffersFromGpt124mByItsOrderAlone) {
  auto settings = preset("gpt124m_documents");
  EXPECT_EQ(settings.data.loader_order, LoaderOrder::documents);
  EXPECT_TRUE(mode::segments_attention(settings));
  EXPECT_EQ(attention_context(settings, 65536), 1024);
  const auto gpt124m = preset("gpt124m");
  settings.data.loader_order = gpt124m.data.loader_order;
  EXPECT_EQ(settings_text(settings), settings_text(gpt124m));
}

}  // namespace
}  // namespace tg
