// What RECIPE means: the settings of the recipe's script, below all that is given.
#include "recipes/recipe.h"

#include <gtest/gtest.h>

#include "config/resolved.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

ParseResult parsed(const std::vector<std::string>& words,
                   const std::vector<std::string>& environment = {}) {
  return parse(words, environment, set_recipe_defaults);
}

TEST(Recipe, ItsScriptsSettingsAreTheDefaultsWhereverItIsNamed) {
  const auto by_flag = parsed({"--recipe", "speedrun"});
  const auto path = write_file("settings.env", "RECIPE=speedrun\n");
  EXPECT_EQ(settings_text(parsed({"--config", path}).settings), settings_text(by_flag.settings));
  EXPECT_EQ(settings_text(parsed({}, {"RECIPE=speedrun"}).settings),
            settings_text(by_flag.settings));
  EXPECT_EQ(by_flag.settings.model.num_layers, 12);
  EXPECT_EQ(by_flag.settings.runtime.artifact, Artifact::none);
  EXPECT_EQ(by_flag.origins.at("num_layers"), "recipe");
  EXPECT_FALSE(is_given(by_flag.origins, "num_layers"));
  EXPECT_EQ(by_flag.origins.at("seed"), "default");
  EXPECT_EQ(by_flag.origins.at("recipe"), "flag");
}

TEST(Recipe, WhatIsGivenBeatsItsSettings) {
  const auto path = write_file("settings.env", "NUM_LAYERS=3\nRECIPE=speedrun\n");
  const auto [settings, origins, warnings, help, version, help_page] =
      parsed({"--config", path, "--model-dim=96"}, {"NUM_HEADS=4"});
  EXPECT_EQ(settings.model.num_layers, 3);
  EXPECT_EQ(settings.model.num_heads, 4);
  EXPECT_EQ(settings.model.num_kv_heads, 6);
  EXPECT_EQ(settings.model.model_dim, 96);
  EXPECT_EQ(origins.at("num_layers"), path);
  EXPECT_EQ(origins.at("num_heads"), "environment");
}

// The last RECIPE counts, and leaves nothing of another's settings.
TEST(Recipe, AFlagReplacesTheOneOfAFile) {
  const auto path = write_file("settings.env", "RECIPE=last_record\n");
  const auto settings = parsed({"--config", path, "--recipe=speedrun"}).settings;
  EXPECT_EQ(settings_text(settings), settings_text(parsed({"--recipe=speedrun"}).settings));
}

TEST(Recipe, TheRecordsSettingsAreTheProgramsDefaults) {
  EXPECT_EQ(settings_text(parsed({"--recipe=record"}).settings),
            settings_text(parsed({}).settings));
}

TEST(Recipe, AutoIsResolvedByTheSettingsAndLeavesTheDefaults) {
  const auto recipe = [](const std::string& given) {
    const auto settings = parsed({}, {given}).settings;
    EXPECT_EQ(settings.model.num_layers, ModelConfig().num_layers) << given;
    return settings.model.recipe;
  };
  EXPECT_EQ(recipe("RECIPE=auto"), RecipeChoice::record);
  EXPECT_EQ(recipe("VALUE_RESIDUAL=blend"), RecipeChoice::speedrun);
  EXPECT_EQ(recipe("MUON_COEFFICIENTS=polar_express"), RecipeChoice::last_record);
}

// Its config.json has every setting that its program knew.
TEST(Recipe, TheSettingsOfARunAreNotMixedWithTodaysOfItsRecipe) {
  const char* const none[] = {"sample"};
  const std::vector<Assignment> run = {{"RECIPE", "last_record", 0}, {"NUM_LAYERS", "5", 0}};
  const auto settings = parse_settings(1, none, nullptr,
                                       {.run_settings = run,
                                        .run_config = "config.json",
                                        .set_recipe_defaults = set_recipe_defaults})
                            .settings;
  EXPECT_EQ(settings.model.recipe, RecipeChoice::last_record);
  EXPECT_EQ(settings.model.num_layers, 5);
  EXPECT_EQ(settings.model.recurrence.num_loops, 0);
}

TEST(Recipe, AnErrorIsSaidOnceThoughTheSettingsAreReadTwice) {
  const auto message = failure_of([] {
    parsed({"--recipe=speedrun", "--num-layers=-1", "--none"});
  });
  EXPECT_EQ(message.find("--num-layers"), message.rfind("--num-layers")) << message;
  EXPECT_EQ(message.find("unknown flag"), message.rfind("unknown flag")) << message;
  EXPECT_NE(message.find("unknown flag --none"), std::string::npos) << message;
}

}  // namespace
}  // namespace tg
