// The last record's recipe: its layer calls, and its initial weights against its script's.
#include <fstream>
#include <nlohmann/json.hpp>

#include "recipes/passes.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using Blocks = std::vector<std::int64_t>;

Blocks blocks_of(const Pass& pass) {
  Blocks blocks;
  for (const auto& call : pass.calls) blocks.push_back(call.block);
  return blocks;
}

// The block whose output each layer call adds; -1: none.
Blocks skips_of(const Pass& pass) {
  std::vector<std::int64_t> slots(static_cast<std::size_t>(pass.slots));
  Blocks found;
  std::int64_t before = -1;
  for (const auto& call : pass.calls) {
    if (call.keep_input) slots[static_cast<std::size_t>(*call.keep_input)] = before;
    const auto& skip = call.skip;
    found.push_back(!skip.weights ? -1
                    : skip.slot   ? slots[static_cast<std::size_t>(*skip.slot)]
                                  : before);
    before = call.block;
  }
  return found;
}

TEST(LastRecordPlan, RepeatsThreeBlocksTwiceAndEndsOnTwoLanes) {
  const auto plan = test::plan_of(test::last_record_config());
  ASSERT_EQ(plan.stages.size(), 2);
  EXPECT_EQ(blocks_of(plan.pass(0)), (Blocks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(skips_of(plan.pass(0)), (Blocks{-1, -1, -1, -1, -1, 4, 3, 2, 1, 0, -1}));
  EXPECT_EQ(blocks_of(plan.pass(1)), (Blocks{0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(skips_of(plan.pass(1)),
            (Blocks{-1, -1, -1, -1, -1, -1, -1, -1, 4, 3, 5, 4, 3, 2, 1, 0, -1}));
  for (const auto& stage : plan.stages) {
    const auto& pass = stage.pass;
    for (const auto& call : pass.calls) {
      EXPECT_EQ(static_cast<bool>(call.lanes.residual), call.block >= 8) << call.index;
      EXPECT_EQ(call.last, call.block == 10);
      const auto& same = plan.pass(1).calls[static_cast<std::size_t>(call.index)];
      EXPECT_EQ(same.block, call.block) << "an index is of one block in every stage";
    }
  }
}

TEST(LastRecordPlan, LeavesOutVisitsWhoseOutputTheLanesDrop) {
  auto config = test::tiny_last_record();
  config.recurrence = {.num_loops = 2, .loop_start = 1, .loop_end = 3};
  config.lanes.parallel_start_layer = 3;
  // 0 1 2 3 1 2 | 3 1 2 3 4 5, of whose second half lanes begin with block 3.
  const auto pass = test::plan_of(config).pass(1);
  EXPECT_EQ(blocks_of(pass), (Blocks{0, 1, 2, 3, 1, 2, 3, 3, 4, 5}));
  EXPECT_EQ(skips_of(pass), (Blocks{-1, -1, -1, -1, -1, -1, 2, 2, 1, 0}));
  Blocks rows;
  for (const auto& call : pass.calls)
    if (call.skip.weights) rows.push_back(call.skip.row);
  EXPECT_EQ(rows, (Blocks{0, 3, 4, 5})) << "a call that is left out takes its skip along";
}

TEST(LastRecordPlan, HasOneSkipForEachEntryOfTheShorterHalf) {
  auto config = test::last_record_config();
  EXPECT_EQ(skip_count(config), 8);
  config.recurrence.num_loops = 0;
  EXPECT_EQ(skip_count(config), 5);
}

class LastRecordInit : public testing::TestWithParam<const char*> {
 protected:
  static ModelConfig config(const std::string& name) {
    if (name == "full_size") return test::last_record_config();
    auto c = test::tiny_last_record();
    c.vocab_size = 1024;
    if (name == "small") return c;
    c.num_layers = 5;
    c.num_kv_heads = 1;
    c.model_dim = 32;
    c.rope_dims = 4;
    c.xsa_last_n = 0;
    c.recurrence.num_loops = 0;
    c.lanes.parallel_start_layer = 3;
    c.gates.head_gate = HeadGateKind::output;
    c.gates.attn_out_gate_src = GateSource::queries;
    c.gates.gate_window = 6;
    return c;
  }
};

// Sums and first values of each tensor, as its script drew them.
TEST_P(LastRecordInit, EqualsPythons) {
  const auto all = nlohmann::json::parse(std::ifstream(TEST_DATA_DIR "/last_record_init.json"));
  const auto& expected = all.at(GetParam());
  const auto config = this->config(GetParam());
  auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  test::initialize(table, config, expected.at("seed"));
  EXPECT_EQ(table.element_count(), expected.at("parameters").get<std::int64_t>());
  for (const auto& [name, reference] : expected.at("tensors").items()) {
    SCOPED_TRACE(name);
    const auto value = table.find(name);
    ASSERT_TRUE(value.defined());
    EXPECT_EQ(value.sizes().vec(), reference.at("shape").get<std::vector<std::int64_t>>());
    const auto fine = value.detach().to(at::kDouble).flatten();
    // A QR may round each element's last bits differently.
    EXPECT_NEAR(fine.sum().item<double>(), reference.at("sum").get<double>(), 1e-3);
    EXPECT_NEAR(fine.abs().sum().item<double>(), reference.at("abs_sum").get<double>(), 1e-2);
    const auto first = reference.at("first").get<std::vector<double>>();
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_NEAR(fine[static_cast<std::int64_t>(i)].item<double>(), first[i], 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LastRecordInit,
                         testing::Values("small", "output_gate", "full_size"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tg
