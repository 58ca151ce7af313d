#include "config/parse.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/env_file.h"
#include "config/suggest.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

TEST(Parse, FlagBeatsEnvironmentBeatsLaterFileBeatsEarlierFileBeatsDefault) {
  const auto first = write_file("first.env", "SEED=1\nKEEP=1\nNUM_LAYERS=1\nITERATIONS=1\n");
  const auto second = write_file("second.env", "SEED=2\nKEEP=2\nNUM_LAYERS=2\n");
  const auto [settings, origins, warnings, help, version, help_page] =
      parse({"--seed", "4", "--config", first, "--config=" + second}, {"SEED=3", "KEEP=3"});
  EXPECT_EQ(settings.data.seed, 4);
  EXPECT_EQ(settings.runtime.keep, 3);
  EXPECT_EQ(settings.model.num_layers, 2);
  EXPECT_EQ(settings.run.iterations, 1);
  EXPECT_EQ(settings.model.num_heads, 8);
  EXPECT_EQ(origins.at("seed"), "flag");
  EXPECT_EQ(origins.at("keep"), "environment");
  EXPECT_EQ(origins.at("num_layers"), second);
  EXPECT_EQ(origins.at("iterations"), first);
  EXPECT_EQ(origins.at("num_heads"), "default");
  EXPECT_FALSE(help || version);
}

struct ToolOptions {
  std::string prompt;
  std::int64_t tokens = 5;
  bool cache = true;
  CountOrAuto bits{.automatic = true};

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("prompt", s.prompt, anything, role::option, "text");
    line("tokens", s.tokens, at_least(1), role::option, "how many");
    line("cache", s.cache, anything, role::option, "whether");
    line("bits", s.bits, within(2, 8), role::option, "or auto, which is in no range");
  }
};

ParseResult parse_tool(ToolOptions& options, const std::vector<std::string>& words,
                       std::vector<Assignment> run_settings = {}) {
  std::vector<const char*> argv = {"tool"};
  for (const auto& word : words) argv.push_back(word.c_str());
  const char* const environment[] = {"TOKENS=7", "NUM_HEADS=2", nullptr};
  return parse_settings(static_cast<int>(argv.size()), argv.data(), environment,
                        {.options = entries_of(options),
                         .run_settings = std::move(run_settings),
                         .run_config = "config.json"});
}

TEST(Parse, ValuesOfARunsConfigAreShownWithoutControlCharacters) {
  ToolOptions options;
  const auto failure = failure_of([&] {
    parse_tool(options, {}, {{"ITERATIONS", "1\n\x1b[m", 0}});
  });
  EXPECT_EQ(failure,
            "64 ITERATIONS='1\\x0a\\x1b[m' (config.json): expected an integer of at least 0");
}

TEST(Parse, ACommandsOwnOptionsAreFlagsAlone) {
  ToolOptions options;
  const auto result = parse_tool(options, {"--prompt", "", "--cache", "0", "--seed", "3"});
  EXPECT_EQ(options.tokens, 5);  // not the environment's
  EXPECT_FALSE(options.cache);
  EXPECT_EQ(result.settings.data.seed, 3);
  EXPECT_EQ(result.origins.at("prompt"), "flag");
  EXPECT_EQ(result.origins.at("tokens"), "default");
  EXPECT_NE(failure_of([&] {
              parse_tool(options, {"--tokens", "0"});
            }).find("of at least 1"),
            std::string::npos);
  EXPECT_NE(failure_of([&] {
              parse_tool(options, {"--promt", "a"});
            }).find("mean --prompt?"),
            std::string::npos);
  EXPECT_NE(failure_of([&] { parse({"--prompt", "a"}); }).find("unknown flag"), std::string::npos);
}

TEST(Parse, AutoIsAllowedWhateverTheRangeOfTheNumber) {
  ToolOptions options;
  parse_tool(options, {"--bits", "8"});
  EXPECT_EQ(options.bits.value, 8);
  parse_tool(options, {"--bits", "auto"});
  EXPECT_TRUE(options.bits.automatic);
  EXPECT_NE(failure_of([&] {
              parse_tool(options, {"--bits", "1"});
            }).find("BITS='1' (--bits): expected"),
            std::string::npos);
}

TEST(Parse, EverythingGivenBeatsTheSettingsOfTheRun) {
  ToolOptions options;
  const auto file = write_file("later.env", "NUM_LAYERS=3\n");
  const auto [settings, origins, warnings, help, version, help_page] = parse_tool(
      options, {"--seed", "4", "--config", file},
      {{"SEED", "1", 0}, {"NUM_LAYERS", "1", 0}, {"NUM_HEADS", "1", 0}, {"KEEP", "9", 0}});
  EXPECT_EQ(settings.data.seed, 4);
  EXPECT_EQ(settings.model.num_layers, 3);
  EXPECT_EQ(settings.model.num_heads, 2);
  EXPECT_EQ(settings.runtime.keep, 9);
  EXPECT_EQ(origins.at("keep"), "config.json");
  const auto failure = failure_of([&] { parse_tool(options, {}, {{"KEEP", "many", 0}}); });
  EXPECT_NE(failure.find("KEEP='many' (config.json): expected an integer"), std::string::npos);
}

TEST(Parse, TakesValuesOfEveryKind) {
  const auto s = parse({"--matrix-lr=1e-3",
                        "--scalar-lr",
                        ".5",
                        "--mlp-negative-slope",
                        "-0.5",
                        "--fused",
                        "0",
                        "--tensorboard",
                        "--fp8",
                        "qkv, mlp",
                        "--tie-embeddings=False",
                        "--record-quirks",
                        "TRUE",
                        "--value-residual",
                        "blend",
                        "--ve-layers",
                        "1, 2,3",
                        "--control-tensor-name-patterns",
                        "a,b",
                        "--tokenizer-path=",
                        "--run-id",
                        "",
                        "--training-timing-breakdown",
                        "1"})
                     .settings;
  EXPECT_EQ(s.optim.matrix_lr, 1e-3);
  EXPECT_EQ(s.optim.scalar_lr, 0.5);
  EXPECT_EQ(s.model.mlp_negative_slope, -0.5);
  EXPECT_FALSE(s.runtime.fused);
  EXPECT_TRUE(s.runtime.tensorboard);
  EXPECT_TRUE(s.runtime.fp8.mlp && s.runtime.fp8.qkv);
  EXPECT_FALSE(s.runtime.fp8.out);
  EXPECT_FALSE(s.model.tie_embeddings);
  EXPECT_TRUE(s.runtime.record_quirks);
  EXPECT_EQ(s.model.value_residual, ValueResidual::blend);
  EXPECT_EQ(s.model.ve_layers, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(s.averaging.control_tensor_name_patterns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.data.tokenizer_path, "");
  EXPECT_EQ(s.data.run_id, "");
  EXPECT_EQ(s.io.training_timing_breakdown, TimingBreakdown::sync);
}

TEST(Parse, LastOfARepeatedFlagCounts) {
  EXPECT_EQ(parse({"--seed", "1", "--seed=2"}).settings.data.seed, 2);
}

TEST(Parse, IgnoresVariablesThatAreNoSetting) {
  const auto result =
      parse({}, {"CONFIG=/nowhere", "HOME=/root", "matrix_lr=9", "NOT A PAIR", "SEEDS=4"});
  EXPECT_EQ(result.settings.data.seed, 1337);
  EXPECT_EQ(result.settings.optim.matrix_lr, 0.025);
}

TEST(Parse, HelpAndVersionLookAtNothingElse) {
  EXPECT_TRUE(parse({"--help", "--no-such-flag"}, {"SEED=x"}).help);
  EXPECT_TRUE(parse({"-h"}).help);
  EXPECT_EQ(parse({"--seed", "1", "--help", "optimizer"}).help_page, "optimizer");
  EXPECT_EQ(parse({"--help", "--seed", "1"}).help_page, "");
  EXPECT_TRUE(parse({"--version", "--config", "/no/such/file"}).version);
}

struct BadInput {
  std::vector<std::string> flags;
  std::vector<std::string> environment;
  std::string expected;
};

TEST(Parse, BadInputNamesSettingValueOriginAndWhatIsExpected) {
  const BadInput cases[] = {
      {{"--matrx-lr", "1"}, {}, "64 unknown flag --matrx-lr; did you mean --matrix-lr?"},
      {{"--matrix_lr=1"}, {}, "64 unknown flag --matrix_lr; did you mean --matrix-lr?"},
      {{"--confg", "x"}, {}, "64 unknown flag --confg; did you mean --config?"},
      {{"--learning-rate", "1"},
       {},
       "64 unknown flag --learning-rate; did you mean --matrix-lr, --scalar-lr, --tied-embed-lr or "
       "--head-lr?"},
      {{"--batch_size=8"}, {}, "64 unknown flag --batch_size; did you mean --train-batch-tokens?"},
      {{"--momentum", "1"},
       {},
       "64 unknown flag --momentum; did you mean --muon-momentum, --muon-momentum-warmup-start, "
       "--muon-momentum-warmup-steps or --muon-momentum-cooldown-steps?"},
      {{"--frobnicate"}, {}, "64 unknown flag --frobnicate; --help all lists those that there are"},
      {{"extra"}, {}, "64 unexpected argument 'extra'"},
      {{"--fused", "yes"}, {}, "64 unexpected argument 'yes'"},
      {{"--seed"}, {}, "64 --seed needs a value"},
      {{"--seed", "--keep", "3"}, {}, "64 --seed needs a value"},
      {{"--config"}, {}, "64 --config needs a value"},
      {{"--seed", "1.5"}, {}, "64 SEED='1.5' (--seed): expected an integer of at least 0"},
      {{"--seed", ""}, {}, "64 SEED='' (--seed): expected an integer of at least 0"},
      {{},
       {"SEED=99999999999999999999"},
       "64 SEED='99999999999999999999' (environment): expected an integer of at least 0"},
      {{},
       {"MATRIX_LR=fast"},
       "64 MATRIX_LR='fast' (environment): expected a number of at least 0"},
      {{}, {"MATRIX_LR=nan"}, "64 MATRIX_LR='nan' (environment): expected a number of at least 0"},
      {{}, {"MATRIX_LR=inf"}, "64 MATRIX_LR='inf' (environment): expected a number of at least 0"},
      {{},
       {"MLP_NEGATIVE_SLOPE=-inf"},
       "64 MLP_NEGATIVE_SLOPE='-inf' (environment): expected a number in [-1000, 1000]"},
      {{},
       {"MLP_NEGATIVE_SLOPE=nan"},
       "64 MLP_NEGATIVE_SLOPE='nan' (environment): expected a number in [-1000, 1000]"},
      {{},
       {"MATRIX_LR=0.1x"},
       "64 MATRIX_LR='0.1x' (environment): expected a number of at least 0"},
      {{},
       {"MATRIX_LR=-0.1"},
       "64 MATRIX_LR='-0.1' (environment): expected a number of at least 0"},
      {{}, {"LOGIT_SOFTCAP=0"}, "64 LOGIT_SOFTCAP='0' (environment): expected a number above 0"},
      {{}, {"BETA1=1"}, "64 BETA1='1' (environment): expected a number in [0, 1)"},
      {{}, {"NUM_HEADS=0"}, "64 NUM_HEADS='0' (environment): expected an integer in [1, 65536]"},
      {{}, {"FUSED=2"}, "64 FUSED='2' (environment): expected 0|1|true|false"},
      {{"--fused="}, {}, "64 FUSED='' (--fused): expected 0|1|true|false"},
      {{}, {"DEVICE=gpu"}, "64 DEVICE='gpu' (environment): expected auto|cuda|cpu"},
      {{"--fp8=mlp,attention"},
       {},
       "64 FP8='mlp,attention' (--fp8): expected 0, 1, or some of mlp, qkv, out and head with "
       "commas between them"},
      {{},
       {"FP8="},
       "64 FP8='' (environment): expected 0, 1, or some of mlp, qkv, out and head with commas "
       "between them"},
      {{"--ve-layers", "1,b"},
       {},
       "64 VE_LAYERS='1,b' (--ve-layers): expected integers with commas between them"},
      {{"--attention-window", "512,-1"},
       {},
       "64 ATTENTION_WINDOW='512,-1' (--attention-window): expected integers in [0, 16777216] with "
       "commas between them"},
      {{"--config", "/no/such/file"},
       {},
       "66 cannot open /no/such/file (No such file or directory)"},
      {{"--config", "/"}, {}, "66 cannot open / (expected a file, found a folder)"},
  };
  for (const auto& [flags, environment, expected] : cases) {
    EXPECT_EQ(failure_of([&] { parse(flags, environment); }), expected);
  }
}

TEST(Parse, SurvivesArgumentsOfAnyLength) {
  EXPECT_EQ(parse({"--run-id=" + std::string(4000, 'x')}).settings.data.run_id.size(), 4000u);
  EXPECT_EQ(failure_of([] { parse({"--run-id=" + std::string(1 << 20, 'x')}); }),
            "64 an argument of 1048585 characters (--run-id=" + std::string(31, 'x') +
                "...): expected at most 4096");
}

TEST(Parse, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(failure_of([] {
              parse({"--sed", "1", "--keep", "0"}, {"FUSED=x"});
            }),
            "64 unknown flag --sed; did you mean --seed?; FUSED='x' (environment): expected "
            "0|1|true|false; "
            "KEEP='0' (--keep): expected an integer of at least 1");
}

TEST(Parse, BadLinesOfAFileAreNamedByNumber) {
  const auto bad_name = write_file("name.env", "# comment\n\nMODEL_DIMS=4\n");
  EXPECT_EQ(failure_of([&] {
              parse({"--config", bad_name});
            }),
            "64 " + bad_name + ":3: unknown setting MODEL_DIMS; did you mean MODEL_DIM?");
  const auto bad_value = write_file("value.env", "MODEL_DIM=four\n");
  EXPECT_EQ(failure_of([&] {
              parse({"--config", bad_value});
            }),
            "64 MODEL_DIM='four' (" + bad_value + ":1): expected an integer in [1, 16777216]");
  const auto no_pair = write_file("pair.env", "SEED=1\nMODEL_DIM 4\n");
  EXPECT_EQ(failure_of([&] {
              parse({"--config", no_pair});
            }),
            "64 " + no_pair + ":2: expected NAME=value, found 'MODEL_DIM 4'");
  const auto open_quote = write_file("quote.env", "RUN_ID=\"abc\n");
  EXPECT_EQ(failure_of([&] {
              parse({"--config", open_quote});
            }),
            "64 " + open_quote + ":1: the quotes of RUN_ID do not close at the line's end");
}

TEST(Parse, CountsOfTokensBeyondReasonAreRefusedInAnyOrder) {
  for (const auto& [name, value, least] :
       {std::tuple("VAL_TOKENS", "9223372036854773760", 0),
        std::tuple("VAL_TOKENS", "9223372036854775807", 0),
        std::tuple("VAL_BATCH_SIZE", "4611686018427387904", 1),
        std::tuple("TRAIN_BATCH_TOKENS", "9223372036854775552", 1)}) {
    for (const std::string order : {"stream", "strided"}) {
      const auto failure = failure_of([&, name = name, value = value] {
        parse({}, {"LOADER_ORDER=" + order, std::string(name) + "=" + value});
      });
      EXPECT_TRUE(
          failure.starts_with(std::string("64 ") + name + "='" + value + "' (environment): "))
          << failure;
      EXPECT_NE(failure.find("in [" + std::to_string(least) + ", 1099511627776]"),
                std::string::npos)
          << failure;
    }
  }
}

TEST(EnvFile, ReadsCommentsQuotesAndBlanksAndNoByteOrderMark) {
  const auto path = write_file("all.env",
                               "\xEF\xBB\xBF# a comment\n"
                               "  A = 1  # why\r\n"
                               "B=a#b\n"
                               "C='x # \\y'  # why\n"
                               "D=\"say \\\"hi\\\" \\\\\"\n"
                               "E=\n"
                               "F=# nothing\n"
                               "G=a=b");
  const std::vector<std::string> expected = {"1", "a#b", "x # \\y", "say \"hi\" \\", "", "", "a=b"};
  std::vector<std::string> values;
  for (const auto& assignment : read_env_file(path)) values.push_back(assignment.value);
  EXPECT_EQ(values, expected);
}

TEST(EnvFile, IncludesAnotherByItsPathFromTheFolderOfTheFirst) {
  const auto inner = write_file("inner.env", "NUM_LAYERS=3\nSEED=5\n");
  const auto outer = write_file("outer.env", "SEED=4\nINCLUDE=inner.env\nNUM_LAYERS=7\n");
  const auto parsed = parse({"--config", outer});
  // In the order of the lines, each with the file that has it.
  EXPECT_EQ(parsed.settings.model.num_layers, 7);
  EXPECT_EQ(parsed.settings.data.seed, 5);
  EXPECT_EQ(parsed.origins.at("num_layers"), outer);
  EXPECT_EQ(parsed.origins.at("seed"), inner);

  write_file("inner.env", "MODEL_DIN=3\n");
  const auto failure = [&] { return failure_of([&] { parse({"--config", outer}); }); };
  EXPECT_EQ(failure().find("64 " + inner + ":1: unknown setting MODEL_DIN"), 0) << failure();
  write_file("inner.env", "\nINCLUDE=outer.env\n");
  EXPECT_EQ(failure().find("64 " + inner + ":2: expected INCLUDE of another file, found "), 0)
      << failure();
  write_file("outer.env", "INCLUDE=none.env\n");
  EXPECT_EQ(failure().find("66 " + outer + ":1: expected INCLUDE of a file, found no "), 0)
      << failure();
}

TEST(Suggest, CountsEditsAndPicksTheNearest) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("seed", "sede"), 1);
  EXPECT_EQ(nearest_name("warmdown", {"warmup_steps", "warmdown_iters"}), "warmdown_iters");
  EXPECT_EQ(nearest_name(std::string(100000, 'x'), {"a"}), "a");
}

TEST(Suggest, KnowsWhatOtherTrainersCallThem) {
  Settings settings;
  std::vector<std::string> members;
  for (const auto& entry : entries_of(settings)) members.push_back(entry.member);
  for (const char* name :
       {"lr", "learning-rate", "batch_size", "gradient_accumulation_steps", "EPOCHS", "max_steps",
        "block_size", "gpu", "random_seed", "n_layer", "n_embd", "dtype", "weight_decay"}) {
    const auto meant = meant_settings(name, members);
    EXPECT_FALSE(meant.empty()) << name;
    for (const auto& member : meant) {
      EXPECT_NE(std::ranges::find(members, member), members.end()) << name << " → " << member;
    }
  }
}

}  // namespace
}  // namespace tg
