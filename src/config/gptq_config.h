#pragma once
// ARTIFACT=gptq: how weights are quantised by GPTQ, with LQER's corrections, and packed. The
// levels of b bits are 2^(b−1)−1 on each side of zero; weights are clipped at a multiple of their
// row's standard deviation.
#include <cstdint>

#include "config/setting.h"

namespace tg {

struct GptqConfig {
  std::int64_t gptq_calibration_batches = 16;
  std::int64_t matrix_bits = 6;
  std::int64_t embed_bits = 8;
  double matrix_clip_sigmas = 12.85;
  double embed_clip_sigmas = 20;
  double mlp_clip_sigmas = 10;
  double attn_clip_sigmas = 13;
  bool gated_attn_quant_gate = false;
  bool lqer_enabled = true;
  std::int64_t lqer_rank = 4;
  std::int64_t lqer_top_k = 3;
  std::int64_t lqer_factor_bits = 4;
  bool lqer_asym_enabled = true;
  std::int64_t lqer_asym_group = 64;
  Compressor compressor = Compressor::brotli;

  static void visit(auto& s, const auto& line, const auto&) {
    line("gptq_calibration_batches", s.gptq_calibration_batches, at_least(1), role::free,
         "calibration batches per rank, of TRAIN_BATCH_TOKENS/8 training tokens each; GPTQ's "
         "Hessians are of their activations");
    line("matrix_bits", s.matrix_bits, within(2, 8), role::free, "bits of a weight");
    line("embed_bits", s.embed_bits, within(2, 8), role::free,
         "bits of a weight of the token tables and the head");
    line("matrix_clip_sigmas", s.matrix_clip_sigmas, above(0), role::free,
         "a weight is clipped at so many standard deviations of its row");
    line("embed_clip_sigmas", s.embed_clip_sigmas, above(0), role::free,
         "MATRIX_CLIP_SIGMAS for the token tables and the head");
    line("mlp_clip_sigmas", s.mlp_clip_sigmas, above(0), role::free, "the same of the MLPs");
    line("attn_clip_sigmas", s.attn_clip_sigmas, above(0), role::free, "the same of attention");
    line("gated_attn_quant_gate", s.gated_attn_quant_gate, anything, role::free,
         "also quantise the gates of attention, in 8 bits");
    line("lqer_enabled", s.lqer_enabled, anything, role::free,
         "low-rank corrections (LQER) of the matrices with the largest errors");
    line("lqer_rank", s.lqer_rank, within(1, 1024), role::free, "rank of a correction");
    line("lqer_top_k", s.lqer_top_k, at_least(0), role::free, "matrices that are corrected");
    line("lqer_factor_bits", s.lqer_factor_bits, within(2, 8), role::free,
         "bits of the factors, with LQER_ASYM_ENABLED=0");
    line("lqer_asym_enabled", s.lqer_asym_enabled, anything, role::free,
         "factors in 2 bits with one scale, and in 4 bits with a scale per group if "
         "LQER_ASYM_GROUP divides the second factor");
    line("lqer_asym_group", s.lqer_asym_group, at_least(1), role::free,
         "values that share a scale");
    line("compressor", s.compressor, anything, role::free,
         "compression of the file: lzma, brotli, or pergroup (the matrices of each kind by the "
         "program lrzip)");
  }
};

}  // namespace tg
