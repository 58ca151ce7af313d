#include "eval/hessians.h"

#include <fmt/format.h>

#include <mutex>

#include "tests/comm/ranks.h"
#include "tests/eval/calibration.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using test::Rows;

constexpr int kVocab = 40;

// The sketch that tests/fixtures/make_model_fixtures.py computes with the plain PyTorch model.
at::Tensor sketch(const at::Tensor& hessian) {
  const auto channel = at::arange(hessian.size(0), at::kDouble);
  return at::matmul(hessian, at::outer(channel, at::arange(1, 4, at::kDouble)).cos());
}

struct Recipe {
  const char* name;
  ModelConfig config;
};
std::vector<Recipe> recipes() {
  return {{"record", test::tiny_record()},
          {"switches", test::tiny_switches()},
          {"speedrun", test::tiny_speedrun()}};
}

ParameterTable load(const ModelConfig& config, const test::Tensors& fixture) {
  auto table = test::make_parameters(config, at::kDouble, at::kCPU);
  for (const auto& row : table.rows()) row.value.detach().copy_(fixture.at("weight." + row.name));
  return table;
}

// Tied and untied heads, grouped queries, gated and exclusive heads, skips; unpadded and padded
// sizes; one batch of two rows and two batches of one.
TEST(Hessians, AreThoseOfPlainPyTorch) {
  for (const auto& [name, config] : recipes()) {
    const auto fixture = test::load_fixture(fmt::format("model_loss_{}.safetensors", name));
    const auto expected = test::load_fixture(fmt::format("model_hessians_{}.safetensors", name));
    const auto table = load(config, fixture);
    const Rows rows(fixture.at("tokens"), kVocab);
    for (const auto& [channels, batches] : {std::pair{1, 1}, {8, 1}, {10, 2}}) {
      SCOPED_TRACE(fmt::format("{}, channels {}, batches {}", name, channels, batches));
      Gpt model(test::plan_of(config), table,
                {.compute = at::kDouble, .padding = {.channels = channels}});
      auto of_rank = rows.of_rank(0, 1);
      Communicator alone;
      const auto found = collect_hessians(
          model, table, of_rank, {.batches = batches, .rows_per_batch = 2 / batches}, alone);
      EXPECT_EQ(std::ssize(found), 6 * config.num_layers + 1);
      for (const auto& [matrix, sketched] : expected)
        EXPECT_TRUE(test::is_close(sketch(found.at(matrix)) * batches, sketched, 1e-9, 1e-9))
            << matrix;
      for (std::int64_t block = 0; block < config.num_layers; ++block) {
        const auto attention_hessian = [&](const char* matrix) {
          return found.at(fmt::format("blocks.{}.attn.{}.weight", block, matrix));
        };
        EXPECT_TRUE(attention_hessian("c_k").is_same(attention_hessian("c_q")));
        EXPECT_TRUE(attention_hessian("c_v").is_same(attention_hessian("c_q")));
      }
    }
  }
}

// The squares of a normed row of D channels add up to D times the squared scale of its norm.
TEST(Hessians, AddABlockThatRecursAtEachOfItsVisits) {
  const auto config = test::tiny_last_record();
  const auto table = test::random_parameters(config, at::kFloat, 1);
  Gpt model(test::plan_of(config), table, {});
  const Rows rows(test::integers({1, 25}, kVocab, 2), kVocab);
  for (const std::int64_t stage : {0, 1}) {
    model.set_stage(stage);
    auto of_rank = rows.of_rank(0, 1);
    Communicator alone;
    const auto found =
        collect_hessians(model, table, of_rank, {.batches = 3, .rows_per_batch = 2}, alone);
    const auto trace = [&](const std::string& matrix) {
      EXPECT_EQ(found.at(matrix).scalar_type(), at::kFloat);
      return found.at(matrix).trace().item<double>();
    };
    const double squares = 2.0 * 24 * 64;  // per batch, scale 1
    for (int block = 0; block < 6; ++block) {
      const int calls = stage == 1 && (block == 2 || block == 3) ? 3 : 1;
      for (const auto* matrix : {"attn.c_q", "mlp.fc"}) {
        EXPECT_NEAR(trace(fmt::format("blocks.{}.{}.weight", block, matrix)),
                    squares * calls / (block + 1), 1e-4 * squares)
            << matrix << " of block " << block << " in stage " << stage;
      }
    }
    EXPECT_NEAR(trace("tok_emb.weight"), squares, 1e-4 * squares);
  }
}

TEST(Hessians, AreTheMeanOfAllRanksOrWithQuirksRank0s) {
  const auto config = test::tiny_record();
  const Rows rows(test::integers({2, 13}, kVocab, 3),
                  kVocab);  // a shard, and so one row, for each rank
  const auto collect = [&](CalibrationRows of_rank, Communicator& communicator, bool quirks) {
    const auto table = test::random_parameters(config, at::kDouble, 1);
    Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
    return collect_hessians(model, table, of_rank,
                            {.batches = 2, .rows_per_batch = 3, .record_quirks = quirks},
                            communicator);
  };
  Communicator alone;
  const auto of_0 = collect(rows.of_rank(0, 2), alone, false),
             of_1 = collect(rows.of_rank(1, 2), alone, false);
  ASSERT_FALSE(test::is_close(of_0.at("tok_emb.weight"), of_1.at("tok_emb.weight"), 1e-3, 1e-3));
  for (const bool quirks : {false, true}) {
    test::as_ranks(2, [&](Communicator& communicator) {
      const auto found = collect(rows.of_rank(communicator.rank(), 2), communicator, quirks);
      static std::mutex one_by_one;
      const std::scoped_lock lock(one_by_one);
      EXPECT_EQ(found.size(), of_0.size());
      for (const auto& [matrix, hessian] : found) {
        const auto& first = of_0.at(matrix);
        const auto expected = quirks ? first : (first + of_1.at(matrix)) / 2;
        EXPECT_TRUE(test::is_close(hessian, expected, 1e-12, 1e-12))
            << matrix << " on rank " << communicator.rank() << ", quirks " << quirks;
      }
    });
  }
}

}  // namespace
}  // namespace tg
