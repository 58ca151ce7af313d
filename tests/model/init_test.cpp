#include "model/init.h"

#include <fmt/format.h>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

ModelConfig wide_record() {
  ModelConfig c;
  c.vocab_size = 20;
  c.num_layers = 1;
  c.num_heads = c.num_kv_heads = 4;
  c.model_dim = 64;
  c.mlp_mult = 1.5;
  c.rope_dims = 0;
  c.bigram_vocab_size = 8;
  c.bigram_dim = 72;  // both projections are wide enough to be drawn
  c.xsa_last_n = 0;
  c.ve_dim = 80;
  c.ve_layers = {0};
  return c;
}

ModelConfig switches() {
  ModelConfig c;
  c.vocab_size = 40;
  c.num_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.model_dim = 16;
  c.tie_embeddings = false;
  c.gates.smear = SmearKind::off;
  c.rope_dims = 0;
  c.bigram_vocab_size = 12;
  c.bigram_dim = 10;  // too narrow: its projection stays zero
  c.xsa_last_n = 0;
  c.ve_dim = 10;
  c.ve_layers = {1};
  c.dtg_enabled = true;
  c.gates.head_gate = HeadGateKind::biased;
  c.value_residual = ValueResidual::on;
  c.mtp_num_heads = 2;
  return c;
}

void expect_fixture(const std::string& name, const ModelConfig& config, std::int64_t seed) {
  const auto expected = test::load_fixture(fmt::format("model_init_{}.safetensors", name));
  auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  test::initialize(table, config, seed);
  ASSERT_EQ(table.rows().size(), expected.size());
  for (const auto& row : table.rows()) {
    ASSERT_TRUE(expected.contains(row.name)) << row.name;
    // The draws are the same bits; a QR may round differently from one processor to another.
    const double tolerance = row.parts[0].initial.dist == InitDist::orthogonal ? 2e-6 : 0;
    EXPECT_TRUE(test::is_close(row.value, expected.at(row.name), 0, tolerance)) << row.name;
  }
}

TEST(Initialize, TheRecordsDrawsEqualPythons) {
  expect_fixture("record", wide_record(), 1337);
}
TEST(Initialize, OverwrittenDrawsOfEverySwitchCount) {
  expect_fixture("switches", switches(), 7);
}
TEST(Initialize, TheSpeedrunsDrawsEqualPythons) {
  expect_fixture("speedrun", test::tiny_speedrun(), 5);
}

struct Summary {
  std::string name;
  std::vector<std::int64_t> shape;
  double sum, abs_sum;
  std::vector<double> first;
};

// What the Python script itself drew at seed 1337.
const std::vector<Summary> kFullRecord = {
    {"qo_bank",
     {22, 512, 512},
     9.400630145043266,
     101717.99768871698,
     {-0.06347191333770752, -0.07977652549743652, 0.05828182399272919}},
    {"kv_bank",
     {22, 256, 512},
     62.64467620437577,
     101729.91610425572,
     {0.046381592750549316, -0.041038110852241516, -0.0018656873144209385}},
    {"mlp_up_bank",
     {11, 1536, 512},
     -12.56898858994673,
     176147.8512886189,
     {0.008944392204284668, -0.007440859451889992, 0.0243743434548378}},
    {"tok_emb.weight",
     {1024, 512},
     -5.619016784806233,
     2093.1197893262965,
     {-0.00323904468677938, -0.0025815176777541637, -0.002617246238514781}},
    {"bigram.proj.weight",
     {512, 128},
     -6.432993938792606,
     2315.150256951674,
     {0.06455159187316895, -0.03771164268255234, 0.09306219220161438}},
    {"ve_shared.embed.weight",
     {1024, 128},
     -1.8701170877207591,
     1045.897031473181,
     {0.026025166735053062, 0.007145795039832592, 0.012380175292491913}},
    {"ve_shared.proj.weight",
     {256, 128},
     -1.5818699867058967,
     1634.0839579554804,
     {0.029103994369506836, 0.03485976159572601, 0.016730014234781265}},
};

TEST(Initialize, TheFullRecordEqualsPythons) {
  ModelConfig config;
  config.bigram_vocab_size = 1536;
  auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  test::initialize(table, config, 1337);
  for (const auto& expected : kFullRecord) {
    const auto value = table[expected.name].detach();
    EXPECT_EQ(value.sizes(), at::IntArrayRef(expected.shape)) << expected.name;
    const auto fine = value.to(at::kDouble).flatten();
    // A QR may round each element's last bits differently, 1e-7 or so: the sums of 2 to 9 million
    // such errors stay under 1e-3, the first values under 1e-5.
    EXPECT_NEAR(fine.sum().item<double>(), expected.sum, 1e-3) << expected.name;
    EXPECT_NEAR(fine.abs().sum().item<double>(), expected.abs_sum, 1e-2) << expected.name;
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(fine[i].item<double>(), expected.first[static_cast<std::size_t>(i)], 1e-5)
          << expected.name;
    }
  }
  // Whatever was not drawn is a constant.
  const auto layers = config.num_layers;
  EXPECT_EQ(table["qo_bank"].narrow(0, layers, layers).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(table["mlp_down_bank"].count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(table["bigram.embed.weight"].count_nonzero().item<std::int64_t>(), 0);
  for (int i = 0; i < 11; ++i) {
    const auto mix = table[fmt::format("blocks.{}.resid_mix", i)];
    EXPECT_EQ(mix.sum().item<double>(), 512);
    EXPECT_EQ(mix[0].sum().item<double>(), 512);
  }
}

// The speedrun with what only the record has.
ModelConfig speedrun_and_more() {
  auto c = test::tiny_speedrun();
  c.model_dim = 64;
  c.tie_embeddings = c.ve_enabled = true;
  c.gates.smear = SmearKind::channels;
  c.bigram_vocab_size = 30;
  c.bigram_dim = 72;
  c.ve_dim = 80;
  c.ve_layers = {0};
  return c;
}

TEST(Initialize, WhatTheSpeedrunDoesNotHaveBeginsAsInTheRecord) {
  const auto config = speedrun_and_more();
  auto table = test::make_parameters(config, at::kFloat, at::kCPU, {.tied_embed_init_std = 0.25});
  test::initialize(table, config, 5);
  const auto deviation = [&](const char* name) {
    return table[name].detach().std(/*unbiased=*/false).item<double>();
  };
  // From 2560 to 3200 draws: within 5 %.
  EXPECT_NEAR(deviation("tok_emb.weight"), 0.25, 0.0125);
  EXPECT_NEAR(deviation("ve_shared.embed.weight"), 0.01, 0.0005);
  const auto projection = table["bigram.proj.weight"].detach();
  EXPECT_TRUE(test::is_close(at::matmul(projection, projection.t()), at::eye(64), 0, 1e-5));
  const auto values = table["ve_shared.proj.weight"].detach();
  EXPECT_TRUE(test::is_close(at::matmul(values, values.t()), at::eye(64), 0, 1e-5));
  EXPECT_EQ(table["bigram.embed.weight"].count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(table["smear.gate"].count_nonzero().item<std::int64_t>(), 0);
  EXPECT_FLOAT_EQ(table["bigram.scale"].item<float>(), 0.05f);
  EXPECT_FLOAT_EQ(table["ve_shared.scale"].item<float>(), 0.1f);
}

TEST(Initialize, WhatTheSpeedrunDoesNotHaveIsDrawnLast) {
  auto more = speedrun_and_more(), plain = more;
  plain.tie_embeddings = plain.ve_enabled = false;
  plain.gates.smear = SmearKind::off;
  plain.bigram_vocab_size = 0;
  const auto drawn = [](const ModelConfig& config) {
    auto table = test::make_parameters(config, at::kFloat, at::kCPU, {.tied_embed_init_std = 0.25});
    test::initialize(table, config, 5);
    return table;
  };
  const auto expected = drawn(plain);
  for (const char* bank : {"qo_bank", "kv_bank", "mlp_up_bank", "mlp_down_bank"}) {
    EXPECT_TRUE(test::is_same(drawn(more)[bank].detach(), expected[bank].detach())) << bank;
  }
  more.tie_embeddings = false;
  const char* table = "tok_emb.weight";
  EXPECT_TRUE(test::is_same(drawn(more)[table].detach(), expected[table].detach()));
}

TEST(Initialize, AGradientReachesTheSpeedrunsBigramTable) {
  const auto config = speedrun_and_more();
  auto table = test::make_parameters(config, at::kFloat, at::kCPU, {.tied_embed_init_std = 0.25});
  test::initialize(table, config, 5);
  const Gpt model(test::plan_of(config), table, {});
  const auto tokens = at::arange(9).remainder(config.vocab_size).view({1, 9});
  model.loss(tokens.slice(1, 0, 8), tokens.slice(1, 1, 9), {}).backward();
  EXPECT_GT(table["bigram.embed.weight"].grad().count_nonzero().item<std::int64_t>(), 0);
}

TEST(Initialize, BanksAreOrthogonalEitherWay) {
  const auto config = wide_record();
  auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  test::initialize(table, config, 3);
  const auto q = table["qo_bank"][0].detach(), up = table["mlp_up_bank"][0].detach();
  // fp32 products of 64 to 96 terms.
  EXPECT_TRUE(test::is_close(at::matmul(q, q.t()), at::eye(64), 0, 1e-5));
  EXPECT_TRUE(test::is_close(at::matmul(up.t(), up), at::eye(64), 0, 1e-5));
}

TEST(Initialize, TheSeedAloneDecides) {
  const auto config = test::tiny_record();
  const auto drawn = [&](std::int64_t seed) {
    auto table = test::make_parameters(config, at::kFloat, at::kCPU);
    at::randn({5});  // the process's own generator plays no part
    test::initialize(table, config, seed);
    return table["kv_bank"].detach();
  };
  EXPECT_TRUE(test::is_same(drawn(1), drawn(1)));
  EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
}

TEST(Initialize, HalfPrecisionTablesAreTheSameDrawsRounded) {
  const auto config = test::tiny_record();
  auto fine = test::make_parameters(config, at::kFloat, at::kCPU),
       half = test::make_parameters(config, at::kBFloat16, at::kCPU);
  test::initialize(fine, config, 4);
  test::initialize(half, config, 4);
  for (const auto& row : half.rows()) {
    const auto expected = fine[row.name].detach().to(row.value.scalar_type());
    EXPECT_TRUE(test::is_same(row.value.detach(), expected)) << row.name;
  }
}

}  // namespace
}  // namespace tg
