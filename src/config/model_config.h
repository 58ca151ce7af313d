#pragma once
// The model's architecture, with every switch in which the recipes differ.
#include <cstdint>
#include <vector>

#include "config/mode.h"
#include "config/model_parts_config.h"
#include "config/setting.h"
#include "config/types/values.h"

namespace tg {

struct ModelConfig {
  std::int64_t vocab_size = 1024;
  std::int64_t num_layers = 11;
  std::int64_t num_heads = 8;
  std::int64_t num_kv_heads = 4;
  std::int64_t qk_head_dim = 0;
  std::int64_t model_dim = 512;
  double mlp_mult = 3.0;
  double mlp_negative_slope = 0.5;
  bool tie_embeddings = true;
  double rope_base = 1e4;
  std::int64_t rope_dims = 16;
  RopeYarn rope_yarn = RopeYarn::automatic;
  CountOrAuto rope_longest{.automatic = true};
  std::vector<std::int64_t> attention_window = {0};
  double qk_gain_init = 1.5;
  std::int64_t bigram_vocab_size = 2048;
  std::int64_t bigram_dim = 128;
  std::int64_t bigram_sign_rows = 8192;
  std::int64_t xsa_last_n = 4;
  bool ln_scale = true;
  bool ve_enabled = true;
  std::int64_t ve_dim = 128;
  std::vector<std::int64_t> ve_layers = {9, 10};
  bool dtg_enabled = false;
  ValueResidual value_residual = ValueResidual::off;
  std::int64_t mtp_num_heads = 0;
  double mtp_loss_weight = 0.2;
  bool unet_skips = true;
  bool layer_scales = true;
  ResidMix resid_mix = ResidMix::vector;
  RecipeChoice recipe = RecipeChoice::automatic;
  ObjectiveConfig objective;
  RecurrenceConfig recurrence;
  LanesConfig lanes;
  GatesConfig gates;
  WindowsConfig windows;

  static void visit(auto& s, const auto& line, const auto& all) {
    line("vocab_size", s.vocab_size, within(2, most_ids), role::fixed.common(),
         "tokens in the vocabulary");
    line("num_layers", s.num_layers, within(1, most_parts), role::fixed.common(), "blocks");
    line("num_heads", s.num_heads, within(1, most_parts), role::fixed.common(),
         "query heads of a block");
    line("num_kv_heads", s.num_kv_heads, within(1, most_parts), role::fixed,
         "key and value heads; divides NUM_HEADS");
    line("qk_head_dim", s.qk_head_dim, within(0, most_channels), role::of_speedrun_2026(all),
         "channels of a query or key head; 0: those of a value head, MODEL_DIM / NUM_HEADS");
    line("model_dim", s.model_dim, within(1, most_channels), role::fixed.common(),
         "channels; a multiple of NUM_HEADS");
    line("mlp_mult", s.mlp_mult, Limit{.low = 0, .high = 1024, .low_open = true}, role::fixed,
         "hidden channels of the MLP as a multiple of MODEL_DIM");
    line("mlp_negative_slope", s.mlp_negative_slope, within(-1000, 1000), role::fixed,
         "slope of the leaky ReLU; 0: ReLU, squared");
    line("tie_embeddings", s.tie_embeddings, anything, role::fixed,
         "the head shares the token embedding's weights");
    line("rope_base", s.rope_base, above(0), role::fixed, "base of the rotary (RoPE) frequencies");
    line("rope_dims", s.rope_dims, within(0, most_channels), role::fixed,
         "rotated channels of a head (RoPE); 0: all of them");
    line("rope_yarn", s.rope_yarn, anything, role::fixed,
         "whether the base grows for long rows: auto, from 1024 tokens on; 1, from TRAIN_SEQ_LEN "
         "on, by the longest row; 0: never");
    line("rope_longest", s.rope_longest, within(0, most_tokens),
         role::fixed_if(s.rope_yarn != RopeYarn::off)
             .ineffective_if(s.rope_yarn == RopeYarn::off, "has no effect with ROPE_YARN=0"),
         "shorter rows have the RoPE base of rows of so many tokens; 0: each pass has the base of "
         "its own rows; auto: the context of training, with ROPE_YARN=1 TRAIN_BATCH_TOKENS; a "
         "run's config.json has the number");
    line("attention_window", s.attention_window, within(0, most_tokens_in_row), role::fixed,
         "tokens that a query sees, its own included; 0: all before it. One number for all blocks, "
         "or one for each: 1024,1024,0,1024");
    line("qk_gain_init", s.qk_gain_init, at_least(0), role::fixed,
         "initial gain of each query head; 0: no gain");
    line("bigram_vocab_size", s.bigram_vocab_size, within(0, 1 << 30), role::fixed,
         "rows of the bigram hash embedding; 0: none");
    line("bigram_dim", s.bigram_dim, within(1, most_channels),
         role::fixed_if(s.bigram_vocab_size > 0)
             .warned_if(mode::bigram_stays_zero(all),
                        "leaves bigram.embed.weight and bigram.proj.weight without effect: both "
                        "begin at zero, as in the record where MODEL_DIM or BIGRAM_DIM is under "
                        "64, and so no gradient ever reaches them; use 64 or more for both, "
                        "BIGRAM_DIM=MODEL_DIM, or BIGRAM_VOCAB_SIZE=0"),
         "channels of the bigram embedding");
    line("bigram_sign_rows", s.bigram_sign_rows, within(1, 1 << 30), role::of_speedrun_2026(all),
         "rows of the table of signs that multiply the bigram embedding");
    line("xsa_last_n", s.xsa_last_n, within(0, most_parts), role::fixed,
         "last blocks with exclusive self-attention (XSA): output without its component along the "
         "token's own value");
    line("ln_scale", s.ln_scale, anything, role::fixed,
         "divide the normalised input of block i by the square root of i + 1");
    line("ve_enabled", s.ve_enabled, anything, role::fixed,
         "value embedding: a token embedding that is added to attention's values");
    line("ve_dim", s.ve_dim, within(1, most_channels), role::fixed_if(s.ve_enabled),
         "channels of the value embedding");
    line("ve_layers", s.ve_layers, anything, role::fixed_if(s.ve_enabled),
         "blocks that add the value embedding");
    line("dtg_enabled", s.dtg_enabled, anything, role::fixed,
         "gate that lets a token bypass a block");
    line("value_residual", s.value_residual, anything, role::fixed,
         "mix the first block's values into the other blocks'");
    line("mtp_num_heads", s.mtp_num_heads, within(0, most_parts), role::fixed,
         "heads of multi-token prediction, which predict further tokens");
    line("mtp_loss_weight", s.mtp_loss_weight, at_least(0), role::fixed_if(s.mtp_num_heads > 0),
         "weight of the mean loss of multi-token prediction");
    line("unet_skips", s.unet_skips, anything, role::fixed,
         "skip connections from the first half of the blocks to the second");
    line("layer_scales", s.layer_scales, anything, role::fixed,
         "learned scales of attention and MLP outputs");
    line("resid_mix", s.resid_mix, anything, role::fixed,
         "weights that mix residual stream and embedding: per channel or per block");
    line("recipe", s.recipe, anything, role::fixed.common(),
         "record and last_record: the 16 MB challenge's; speedrun, speedrun_43, speedrun_89 and "
         "speedrun_91: GPT-124M of 2024, record 43 of 2025, records 89 and 91 of 2026. Its "
         "script's settings become the defaults; order of draws, warm-up and quirks are its "
         "script's. auto: speedrun with VALUE_RESIDUAL=blend, "
         "last_record with MUON_COEFFICIENTS=polar_express, else record, and the program's "
         "defaults stay");
    ObjectiveConfig::visit(s.objective, line, all);
    RecurrenceConfig::visit(s.recurrence, line, all);
    LanesConfig::visit(s.lanes, line, all);
    GatesConfig::visit(s.gates, line, all);
    WindowsConfig::visit(s.windows, line, all);
  }
};

}  // namespace tg
