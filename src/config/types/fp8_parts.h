#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace tg {

// GEMMs that are computed in FP8: FP8=1 means all, FP8=mlp,out the MLP's and attention's output
// projection.
struct Fp8Parts {
  bool mlp = false, qkv = false, out = false, head = false;

  struct Name {
    std::string_view name;
    bool Fp8Parts::*part;
  };
  static constexpr auto names() {
    return std::to_array<Name>({{"mlp", &Fp8Parts::mlp},
                                {"qkv", &Fp8Parts::qkv},
                                {"out", &Fp8Parts::out},
                                {"head", &Fp8Parts::head}});
  }
  bool any() const {
    return std::ranges::any_of(names(), [this](const Name& name) { return this->*name.part; });
  }
  bool all() const {
    return std::ranges::all_of(names(), [this](const Name& name) { return this->*name.part; });
  }
};

}  // namespace tg
