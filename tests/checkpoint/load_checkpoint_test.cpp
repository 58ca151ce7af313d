#include "checkpoint/resume.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

// A run whose state consists of these tensors.
struct State final : SavedState {
  NamedTensors tensors;
  void visit(StateVisitor& visitor) override {
    for (const auto& [name, value] : tensors) visitor(name, value);
  }
  ModelRecord record() const override { return {.step = step}; }
};

class LoadCheckpoint : public testing::Test {
 protected:
  State state_;
  ResumePoint point_{"checkpoint", {}};
};

// Programs without an FP8 head that is the token table saved no scales for one.
TEST_F(LoadCheckpoint, ScalesOfAHeadThatWereNotSavedStayThoseOfAFirstStep) {
  const auto other = at::zeros({2}), head = at::full({2}, 5.0f), scaled_input = at::full({2}, 6.0f);
  state_.tensors = {{"model.fp8_scales.visits.0.up", other},
                    {"model.fp8_scales.head", head},
                    {"model.fp8_scales.head.scaled_input", scaled_input}};
  point_.tensors = {{"model.fp8_scales.visits.0.up", at::ones({2})}};
  load_checkpoint(point_, state_);
  EXPECT_TRUE(at::equal(other, at::ones({2})));
  EXPECT_TRUE(at::equal(head, at::full({2}, 5.0f)));
  EXPECT_TRUE(at::equal(scaled_input, at::full({2}, 6.0f)));

  point_.tensors = {{"model.fp8_scales.visits.0.up", at::ones({2})},
                    {"model.fp8_scales.head", at::full({2}, 2.0f)},
                    {"model.fp8_scales.head.scaled_input", at::full({2}, 3.0f)}};
  load_checkpoint(point_, state_);
  EXPECT_TRUE(at::equal(head, at::full({2}, 2.0f)));
  EXPECT_TRUE(at::equal(scaled_input, at::full({2}, 3.0f)));
}

// One rank's part of a sum over ranks, as in a run.
struct SummedState final : SavedState {
  at::Tensor part;
  void visit(StateVisitor& visitor) override { visitor("sum", part, Placement::summed); }
  ModelRecord record() const override { return {.step = step}; }
};

TEST_F(LoadCheckpoint, ASumOverRanksStaysTheSameOnAnyNumberOfThem) {
  constexpr int kSaved = 4;
  const auto part_of = [](int rank) { return at::full({2}, 1 << rank, at::kFloat); };
  for (const int world : {1, 2, 3, 4, 6}) {
    auto sum = at::zeros({2});
    for (int rank = 0; rank < world; ++rank) {
      point_.manifest.world_size = kSaved;
      point_.tensors.clear();
      for (int saved = 0; saved < kSaved; ++saved)
        point_.tensors.emplace_back(part_of_rank("sum", saved), part_of(saved));
      SummedState state;
      state.part = at::full({2}, 100.0f);
      load_checkpoint(point_, state, rank, world);
      if (world == kSaved) {
        EXPECT_TRUE(at::equal(state.part, part_of(rank)));
      }
      sum += state.part;
    }
    EXPECT_TRUE(at::equal(sum, at::full({2}, 15.0f))) << world;
  }
}

TEST_F(LoadCheckpoint, AnythingElseThatWasNotSavedIsAnError) {
  for (const char* name : {"model.fp8_scales.visits.0.up", "parameter.tok_emb.weight"}) {
    state_.tensors = {{name, at::zeros({2})}};
    test::expect_error([&] { load_checkpoint(point_, state_); }, ExitCode::bad_data,
                       std::string("checkpoint: has no '") + name + "'");
  }
}

}  // namespace
}  // namespace tg
