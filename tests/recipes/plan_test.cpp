// What a recipe makes of the settings: the layer calls of a pass.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <tuple>

#include "model/flops.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

// As the reference implementation's stack: the first half pushes its outputs, each block of the
// second half pops one and adds it to its input. → by layer call the block whose output it adds.
std::map<std::int64_t, std::int64_t> popped_outputs(std::int64_t layers) {
  std::map<std::int64_t, std::int64_t> found;
  std::vector<std::int64_t> stack;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (i >= layers / 2 && !stack.empty()) {
      found[i] = stack.back();
      stack.pop_back();
    }
    if (i < layers / 2) stack.push_back(i);
  }
  return found;
}

TEST(Plan, TheSecondHalfAddsTheOutputsOfTheFirstInReverse) {
  for (std::int64_t layers = 1; layers <= 9; ++layers) {
    SCOPED_TRACE(layers);
    ModelConfig config;
    config.num_layers = layers;
    config.ve_enabled = false;
    config.xsa_last_n = 0;
    const auto pass = test::plan_of(config).pass(0);
    std::map<std::int64_t, std::int64_t> kept, found;  // by slot, by layer call: whose output
    for (const auto& call : pass.calls) {
      const auto before = call.index - 1;
      if (const auto& [weights, gates, row, slot] = call.skip; weights) {
        EXPECT_EQ(row, std::ssize(found));
        found[call.index] = slot ? kept.at(*slot) : before;
      }
      if (!call.keep_input) continue;
      EXPECT_LT(*call.keep_input, pass.slots);
      EXPECT_TRUE(kept.emplace(*call.keep_input, before).second) << "a slot is written once";
    }
    EXPECT_EQ(found, popped_outputs(layers));
    EXPECT_EQ(std::ssize(kept), pass.slots);
  }
}

TEST(Plan, VisitsEachBlockOnceAndTheLastAlonePassesByWhatNobodyReads) {
  const auto plan = test::plan_of(test::tiny_record());
  ASSERT_EQ(plan.stages.size(), 1);
  const auto& calls = plan.stages.front().pass.calls;
  ASSERT_EQ(calls.size(), plan.blocks.size());
  for (std::int64_t i = 0; i < std::ssize(calls); ++i) {
    const auto& call = calls[static_cast<std::size_t>(i)];
    EXPECT_EQ(call.index, i);
    EXPECT_EQ(call.block, i);
    EXPECT_EQ(call.last, i == 4);
    EXPECT_EQ(call.exclusive, i >= 3);
    EXPECT_EQ(static_cast<bool>(call.value_scale), i == 1 || i == 4);
    EXPECT_EQ(call.norm_scale, 1 / std::sqrt(static_cast<double>(i + 1)));
  }
}

TEST(Plan, AVisitHasTheWindowOfItsBlockOrThatOfAll) {
  auto config = test::tiny_record();
  const auto windows = [&](const std::vector<std::int64_t>& setting) {
    config.attention_window = setting;
    std::vector<std::int64_t> found;
    const auto plan = test::plan_of(config);
    for (const auto& call : plan.stages.front().pass.calls) found.push_back(call.window);
    return found;
  };
  using Windows = std::vector<std::int64_t>;
  EXPECT_EQ(windows({0}), Windows(5, 0));
  EXPECT_EQ(windows({7}), Windows(5, 7));
  EXPECT_EQ(windows({7, 8, 0, 9, 1}), (Windows{7, 8, 0, 9, 1}));
}

// q·kᵀ and p·v of the pairs that see each other, 12 FLOPs of a channel for each.
TEST(Plan, AttentionsFlopsAreThoseOfWhatItSees) {
  auto config = test::tiny_record();
  constexpr std::int64_t kContext = 4096;
  const auto flops = [&](const std::vector<std::int64_t>& windows) {
    config.attention_window = windows;
    const auto plan = test::plan_of(config);
    return training_flops_per_token(plan, plan.pass(0), kContext);
  };
  const auto pairs = [&](std::int64_t window) {
    std::int64_t sum = 0;
    for (std::int64_t query = 0; query < kContext; ++query) sum += std::min(query + 1, window);
    return static_cast<double>(sum);
  };
  const auto of_windows = [&](double seen) {
    return 12 * static_cast<double>(config.model_dim) * seen / kContext;
  };
  EXPECT_EQ(flops({kContext}), flops({0}));
  EXPECT_EQ(flops({2 * kContext}), flops({0}));
  const double saved = of_windows(3 * pairs(kContext) - pairs(1024) - 2 * pairs(100));
  // But for half a pair of each query and of each of those whose windows begin in the row.
  EXPECT_NEAR((flops({0}) - flops({0, 1024, 100, 0, 100})) / saved, 1, 1e-3);
}

TEST(Plan, CountsTheElementsOfPairedHeadsAndTheKeysOfComposedAttention) {
  constexpr std::int64_t kContext = 4096;
  const auto plan = test::plan_of(test::tiny_record());
  auto pass = plan.pass(0);
  const auto flops = [&] { return training_flops_per_token(plan, pass, kContext); };
  auto& call = pass.calls[1];
  call.window = 100;
  const double none = flops();
  call.composed_window = 100;
  const double composed = flops();
  call.composed_window = 0;
  call.window = 0;
  const double all = flops();
  call.paired = true;
  const double dim = static_cast<double>(plan.shape.dim);
  EXPECT_NEAR(flops() - all, 6 * dim * kContext, 1e-6 * all);
  call.window = 100;
  EXPECT_NEAR(flops() - none, 6 * dim * (100.0 * 100 / (2 * kContext)), 1e-9 * all);
  EXPECT_NEAR(composed - none, 6 * dim * (200 - 100.0 * 100 / kContext), 1e-9 * all);
}

// Every parameter that is declared is in the plan, and no other: what nothing reads would be
// trained for nothing.
TEST(Plan, HasEveryDeclaredParameterOnce) {
  for (const auto& config : {test::tiny_record(), test::tiny_speedrun(), test::tiny_switches(),
                             test::tiny_gated_smear(), test::tiny_last_record()}) {
    const auto recipe = test::spec_of(config);
    const auto& plan = recipe.plan;
    const auto& embedding = plan.embedding;
    const auto& values = plan.value_embedding;
    const auto& m = plan.matrices;
    std::vector<ParameterId> ids{embedding.tokens,
                                 embedding.bigrams,
                                 embedding.bigram_projection,
                                 embedding.bigram_scale,
                                 embedding.smear_gate,
                                 embedding.gated_smear_weight,
                                 embedding.gated_smear_lambda,
                                 values.table,
                                 values.projection,
                                 values.scale,
                                 m.queries.bank,
                                 m.keys.bank,
                                 m.up.bank,
                                 m.down.bank,
                                 plan.head.weight};
    ids.insert(ids.end(), plan.head.multi_token.begin(), plan.head.multi_token.end());
    for (const auto& block : plan.blocks) {
      ids.insert(ids.end(),
                 {block.mix, block.q_gain, block.attn_scale, block.mlp_scale,
                  block.value_mix.weights, block.head_gate.gate.weight, block.head_gate.gate.bias,
                  block.update_gate.weight, block.update_gate.bias});
    }
    std::map<std::int64_t, int> count;
    for (const auto id : ids) {
      if (id) ++count[id.row];
    }
    // What layer calls share.
    std::set<std::int64_t> shared;
    for (const auto& stage : plan.stages) {
      for (const auto& [skip, lanes, scale] :
           stage.pass.calls | std::views::transform([](const LayerCall& v) {
             return std::tuple(v.skip, v.lanes, v.value_scale);
           }))
        for (const auto id : {skip.weights, skip.gates, lanes.residual, lanes.post, scale})
          if (id) shared.insert(id.row);
    }
    for (const auto row : shared) ++count[row];
    for (std::size_t i = 0; i < recipe.parameters.size(); ++i)
      EXPECT_EQ(count[static_cast<std::int64_t>(i)], 1) << recipe.parameters[i].name;
    EXPECT_EQ(count.size(), recipe.parameters.size());
  }
}

}  // namespace
}  // namespace tg
