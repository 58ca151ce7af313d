#pragma once
// Types of settings beside numbers, words, lists and schedules.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "config/types/schedule.h"

namespace tg {

// A value, or "auto": the program or another setting decides.
template <class T>
struct OrAuto {
  T value{};  // T{} with `automatic`
  bool automatic = false;
};
using CountOrAuto = OrAuto<std::int64_t>;
using NumberOrAuto = OrAuto<double>;
using CountScheduleOrAuto = OrAuto<CountSchedule>;

// How often: a number of steps, or of minutes of training time. As text "100" or "5m".
struct Every {
  std::int64_t count = 0;  // 0: never
  bool minutes = false;
};

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
