#pragma once
// fixtures/record_43_updates.safetensors and record_89_updates.safetensors: what the scripts of the
// speedrun's records of 2025-11-10 and 2026-08-01 compute in fp32 of small tensors. NorMuon
// ("normuon.NAME.p0" and, after steps with the gradients "g1" and "g2", "p1" and "p2"; of record 89
// also "q2", the second moments), Adam ("adam.NAME.…" and of record 89 "adam.…", three steps), of
// record 43 Polar Express ("polar.x", "polar.out").
#include <ATen/ATen.h>

#include <map>
#include <string>

#include "weights/safetensors/safetensors.h"

namespace tg::test {

using ReferenceValues = std::map<std::string, at::Tensor>;

inline ReferenceValues record_43() {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_43_updates.safetensors");
  return {loaded.begin(), loaded.end()};
}

inline ReferenceValues record_89() {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_89_updates.safetensors");
  return {loaded.begin(), loaded.end()};
}

}  // namespace tg::test
