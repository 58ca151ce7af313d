#include "config/script_names.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/resolved.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

GatesConfig gates_of(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment = {}) {
  return parse(words, environment).settings.model.gates;
}

TEST(ScriptSwitches, SelectAValueOfTheirSetting) {
  for (const auto& [member, setting, value] : script_switches) {
    const auto name = env_name(member);
    const auto on = parse({}, {name + "=1"});
    EXPECT_EQ(setting_text(on.settings, setting), value) << name;
    EXPECT_EQ(on.origins.at(std::string(setting)), "environment") << name;
    EXPECT_EQ(setting_text(parse({"--" + flag_name(member)}).settings, setting), value) << name;
  }
}

TEST(ScriptSwitches, OfZeroTurnOffTheirOwnValueAlone) {
  EXPECT_EQ(gates_of({}).smear, SmearKind::channels);
  EXPECT_EQ(gates_of({}, {"SMEAR_GATE=0"}).smear, SmearKind::off);
  EXPECT_EQ(gates_of({}, {"SMEAR_GATE_ENABLED=0"}).smear, SmearKind::channels);
  EXPECT_EQ(gates_of({}, {"SMEAR_GATE=0", "SMEAR_GATE_ENABLED=1"}).smear, SmearKind::gated);
  EXPECT_EQ(gates_of({}, {"SMEAR_GATE_ENABLED=1", "SMEAR_GATE=0"}).smear, SmearKind::gated);
  EXPECT_EQ(gates_of({"--head-gate", "full", "--gated-attn-enabled", "0"}).head_gate,
            HeadGateKind::off);
}

TEST(ScriptSwitches, OfTheStrongerSourceDecide) {
  const auto file = write_file("gates.env", "SMEAR_GATE_ENABLED=1\nHEAD_GATE=sparse\n");
  EXPECT_EQ(gates_of({"--config", file}).smear, SmearKind::gated);
  EXPECT_EQ(gates_of({"--config", file}, {"SMEAR_GATE=1"}).smear, SmearKind::channels);
  EXPECT_EQ(gates_of({"--config", file}, {"SMEAR=off"}).smear, SmearKind::off);
  EXPECT_EQ(gates_of({"--config", file}, {"GATED_ATTENTION=1"}).head_gate, HeadGateKind::biased);
  EXPECT_EQ(gates_of({"--config", file}, {"GATED_ATTENTION=0"}).head_gate, HeadGateKind::sparse);
  // An environment has no order.
  for (const auto& environment : {std::vector<std::string>{"SMEAR=off", "SMEAR_GATE=1"},
                                  std::vector<std::string>{"SMEAR_GATE=1", "SMEAR=off"}})
    EXPECT_EQ(gates_of({}, environment).smear, SmearKind::off);
}

TEST(ScriptSwitches, TwoOfOneSettingInOneSourceAreRefused) {
  EXPECT_EQ(
      failure_of([] {
        gates_of({}, {"SPARSE_ATTN_GATE_ENABLED=1", "GATED_ATTENTION=1"});
      }),
      "78 SPARSE_ATTN_GATE_ENABLED=1 and GATED_ATTENTION=1: HEAD_GATE has one value: expected "
      "one of them");
  EXPECT_EQ(failure_of([] {
              gates_of({"--smear-gate", "--smear-gate-enabled"});
            }),
            "78 SMEAR_GATE=1 and SMEAR_GATE_ENABLED=1: SMEAR has one value: expected one of them");
}

TEST(ScriptSwitches, OfAnOlderRunsConfigAreRead) {
  nlohmann::json config = settings_json(Settings(), {});
  config["settings"].erase("SMEAR");
  config["settings"].erase("HEAD_GATE");
  config["settings"].update(
      {{"SMEAR_GATE", false}, {"SMEAR_GATE_ENABLED", true}, {"ATTN_OUT_GATE_ENABLED", true}});
  const auto read = model_settings(config);
  ASSERT_TRUE(read);
  const char* const argv[] = {"eval"};
  const auto gates = parse_settings(1, argv, nullptr, {.run_settings = *read}).settings.model.gates;
  EXPECT_EQ(gates.smear, SmearKind::gated);
  EXPECT_EQ(gates.head_gate, HeadGateKind::output);
}

TEST(IgnoredNames, AreAcceptedWithTheReason) {
  const auto result = parse({"--late-qat", "0"}, {"FUSED_CE_ENABLED=1"});
  EXPECT_EQ(result.warnings,
            (std::vector<std::string>{"LATE_QAT=0 has no effect: LATE_QAT_THRESHOLD decides",
                                      "FUSED_CE_ENABLED=1 has no effect: FUSED=0 turns off all "
                                      "kernels"}));
  EXPECT_EQ(failure_of([] { parse({}, {"LATE_QAT=maybe"}); }),
            "64 LATE_QAT='maybe' (environment): expected 0|1|true|false");
}

}  // namespace
}  // namespace tg
