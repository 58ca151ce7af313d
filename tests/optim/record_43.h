#pragma once
// fixtures/record_43_updates.safetensors: what the script of the speedrun's record of 2025-11-10
// computes in fp32 of small tensors: NorMuon ("normuon.NAME.p0" and, after steps with the gradients
// "g1" and "g2", "p1" and "p2"), Adam ("adam.NAME.…", three steps), Polar Express ("polar.x",
// "polar.out").
#include <ATen/ATen.h>

#include <map>
#include <string>

#include "weights/safetensors/safetensors.h"

namespace tg::test {

inline std::map<std::string, at::Tensor> record_43() {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_43_updates.safetensors");
  return {loaded.begin(), loaded.end()};
}

}  // namespace tg::test
