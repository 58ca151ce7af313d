#include "weights/artifact/pergroup.h"

#include <charconv>

namespace tg {
namespace {

constexpr std::string_view kBlocks = "blocks.";

}  // namespace

std::optional<GroupPlace> group_place(std::string_view name) {
  GroupPlace place;
  const bool in_block = name.starts_with(kBlocks);
  if (in_block) {
    const auto digits = name.substr(kBlocks.size());
    const auto* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, place.layer);
    // Each layer has one spelling: no sign, no leading zeros.
    if (error != std::errc() || rest == end || *rest != '.' || place.layer < 0 ||
        (digits[0] == '0' && rest != digits.data() + 1))
      return {};
    name = {rest + 1, end};
  }
  for (; place.group < kMatrixGroups.size(); ++place.group)
    if (kMatrixGroups[place.group].name == name && in_block == (place.group > 0)) return place;
  return {};
}

bool is_pergroup(std::string_view bytes) {
  return bytes.starts_with("PGRP");
}

}  // namespace tg
