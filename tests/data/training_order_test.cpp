#include "data/training_order.h"

#include "tests/data/aligned_rows.h"

namespace tg {
namespace {

using test::aligned_order;
using test::Alignment;
using test::documents;
using test::kBos;
using test::next_of;
using test::Shards;

TEST(TrainingOrder, AlignedHasTheRoundsAndTheLimitOfTheSettings) {
  const Shards shards(documents({300, 405, 221, 277, 401}));
  Settings settings;
  settings.data.loader_order = LoaderOrder::aligned;
  settings.data.bos_id = {.value = kBos};
  settings.run.train_batch_tokens = 8 * 10;
  settings.run.train_seq_len = 7;
  for (const bool quirks : {false, true}) {
    settings.runtime.record_quirks = quirks;
    const auto order = make_training_order(settings, *shards.set, /*rank=*/1, /*world_size=*/2);
    const auto expected = aligned_order(
        *shards.set, {.length = 10, .limit = 7, .rank = 1, .world = 2, .quirks = quirks});
    for (int i = 0; i < 60; ++i) {
      ASSERT_EQ(next_of(*order), next_of(*expected));
      ASSERT_EQ(order->state(), expected->state());
    }
  }
  EXPECT_EQ(training_segments(settings)->limit, 7);
}

TEST(TrainingOrder, AlignedHasOnlyAsManyDocumentsInARowAsTheScriptIfThatIsWanted) {
  test::Tokens tokens(8 * 128, kBos);
  const Shards shards({tokens});
  Settings settings;
  settings.data.loader_order = LoaderOrder::aligned;
  settings.data.bos_id = {.value = kBos};
  settings.run.train_batch_tokens = 8 * 127;
  EXPECT_EQ(make_training_order(settings, *shards.set, 0, 1)->advance()->spans.size(), 128);
  settings.runtime.record_quirks = true;
  const auto order = make_training_order(settings, *shards.set, 0, 1);
  test::expect_part(test::error_of(ExitCode::bad_data, [&] { order->advance(); }),
                    "has 128 documents (expected at most 127 with RECORD_QUIRKS=1");
}

TEST(TrainingOrder, TheScriptsTablesOfDocumentsGrowWithTheirRows) {
  for (const auto recipe : {RecipeChoice::speedrun_89, RecipeChoice::speedrun_91}) {
    EXPECT_EQ(most_script_pieces(recipe, 16384), 63);
    EXPECT_EQ(most_script_pieces(recipe, 32768), 95);
    EXPECT_EQ(most_script_pieces(recipe, 49152), 127);
    EXPECT_EQ(most_script_pieces(recipe, 65536), 255);  // 65536 / 300 = 218, rounded up to 256
    EXPECT_EQ(most_script_pieces(recipe, 64), 0) << "any";
  }
  EXPECT_EQ(most_script_pieces(RecipeChoice::speedrun_43, 16384), 127);
}

}  // namespace
}  // namespace tg
