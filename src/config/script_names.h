#pragma once
// Names of the reference scripts that are no settings of this program: switches that select one
// value of a setting, and names that have no effect.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/entry.h"

namespace tg {

// NAME=1 selects `value` of the setting; NAME=0 turns it off if it has that value.
struct ScriptSwitch {
  std::string_view member, setting, value;
};
inline constexpr ScriptSwitch script_switches[] = {
    {"smear_gate", "smear", "channels"},
    {"smear_gate_enabled", "smear", "gated"},
    {"gated_attn_enabled", "head_gate", "full"},
    {"gated_attention", "head_gate", "biased"},
    {"sparse_attn_gate_enabled", "head_gate", "sparse"},
    {"attn_out_gate_enabled", "head_gate", "output"},
};

// Accepted with a warning, which says why NAME has no effect.
struct IgnoredName {
  std::string_view member, reason;
};
inline constexpr IgnoredName ignored_names[] = {
    {"late_qat", "LATE_QAT_THRESHOLD decides"},
    {"fused_ce_enabled", "FUSED=0 turns off all kernels"},
};

// Null: no such switch.
const ScriptSwitch* find_script_switch(std::string_view member);

// Entries of both lists, all 0 or 1. An entry's assign() writes values[member]; `values` must
// outlive the entries.
std::vector<Entry> script_name_entries(std::map<std::string, bool>& values);

// Replaces the switches of `texts`, by environment name, by the settings that they select. Older
// programs wrote the switches, all of them, into a run's files.
void replace_script_switches(std::map<std::string, std::string>& texts);

}  // namespace tg
