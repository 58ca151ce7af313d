#pragma once
#include <map>
#include <string>
#include <vector>

#include "config/entry.h"
#include "config/env_file.h"
#include "config/settings.h"

namespace tg::fuzz {

// The defaults with these values, of which those are skipped that the parser would refuse. Not by
// the parser itself: it declares every flag anew, which takes a millisecond.
inline const Settings& assigned(const std::vector<Assignment>& assignments) {
  static Settings settings;
  static const auto entries = [] {
    std::map<std::string, Entry> by_name;
    for (Entry& entry : entries_of(settings)) by_name.emplace(env_name(entry.member), entry);
    return by_name;
  }();
  settings = {};
  for (const auto& assignment : assignments)
    if (const auto entry = entries.find(assignment.name); entry != entries.end())
      entry->second.assign(assignment.value);
  return settings;
}

}  // namespace tg::fuzz
