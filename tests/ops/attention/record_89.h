#pragma once
// fixtures/record_89_attention.safetensors: what the script of the speedrun's record of 2026-08-01
// computes in fp32 of small tensors. RoPE of two of its heads of 128 with the frequencies that it
// has after its last step ("rotary.x", "frequencies", "y" and, of paired heads, "y_paired");
// attention with six heads of 16 over 48 tokens, from its input to behind the output projection,
// with offset, DC, XSA and head gates ("attention.plain.…") and paired ("attention.paired.…").
#include <ATen/ATen.h>

#include <map>
#include <string>

#include "weights/safetensors/safetensors.h"

namespace tg::test {

inline std::map<std::string, at::Tensor> record_89_attention() {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_89_attention.safetensors");
  return {loaded.begin(), loaded.end()};
}

}  // namespace tg::test
