// Compares phased test-time training with a plain loop over documents, in fp64, where another order
// of summation changes 1e-15.
#include "eval/ttt/phased_ttt.h"

#include <numbers>
#include <regex>

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

using test::documents_of, test::kBos, test::kLengths, test::kManyLengths, test::kSeed;
using test::kVocab, test::Lengths, test::options_of, test::run_ttt, test::Tokens;

// Scores one document after the other, with one-row adapters that start from the document's row of
// the batch's adapters. A batch is scored in the slot that has scored least since the last phase.
class PlainLoop {
 public:
  PlainLoop(const Tokens& tokens, const PhasedTttOptions& options)
      : tokens_(tokens),
        options_(options),
        losses_(tokens.size() - 1, NAN),
        batches_(batch_by_length(find_documents(tokens, kBos), options.config.ttt_batch_size)) {
    for (std::int64_t i = 0; i < options.config.ttt_concurrent_batches; ++i) {
      auto generator = test::generator(kSeed);
      auto set = make_set(options.config.ttt_batch_size, generator);
      slots_.push_back({.generator = generator, .set = std::move(set)});
    }
  }

  std::vector<double> losses() {
    std::int64_t scored = 0;
    std::size_t phases = 0;
    const auto& ttt = options_.config;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const auto& batch = batches_[i];
      auto& slot = *std::ranges::min_element(slots_, {}, &Slot::inputs);
      if (std::ssize(batch.documents) == ttt.ttt_batch_size) {
        if (!ttt.ttt_warm_start_a) slot.set.draw_a(slot.generator);
        score(batch, slot.set);
      } else {
        const auto fresh = make_set(std::ssize(batch.documents), slot.generator);
        score(batch, fresh);
      }
      for (std::int64_t end = 0; end < batch.longest() - 1;) {
        end += ttt.ttt_chunk_size;
        slot.inputs += std::min(end, ttt.ttt_eval_seq_len);
      }
      scored += std::ssize(batch.documents);
      // One phase on one document and one on two.
      if (phases == 2 || scored <= static_cast<std::int64_t>(phases)) continue;
      train(i, ++phases);
      for (auto& each : slots_) {
        each.set.draw_a(each.generator);
        each.inputs = 0;
      }
    }
    return losses_;
  }

 private:
  struct Slot {
    at::Generator generator;
    LoraAdapters set;
    std::int64_t inputs = 0;
  };
  LoraAdapters make_set(std::int64_t rows, at::Generator& generator) {
    return {model_.gpt,
            {.rank = options_.config.ttt_lora_rank, .alpha = options_.config.ttt_lora_alpha},
            rows,
            generator};
  }

  void score(const DocumentBatch& batch, const LoraAdapters& set) {
    for (std::size_t row = 0; row < batch.documents.size(); ++row) {
      auto unused = test::generator(0);
      const LoraAdapters own(
          model_.gpt,
          {.rank = options_.config.ttt_lora_rank, .alpha = options_.config.ttt_lora_alpha}, 1,
          unused);
      const auto of_row = [&](const std::string& name) {
        return set.named(name).narrow(0, static_cast<std::int64_t>(row), 1);
      };
      for (const auto& name : names_of_a()) own.named(name).copy_(of_row(name));
      score(batch, batch.documents[row], own);
      for (const auto& name : names_of_a()) of_row(name).copy_(own.named(name));
    }
  }

  void score(const DocumentBatch& batch, const DocumentSpan& document, const LoraAdapters& own) {
    const auto& ttt = options_.config;
    AdapterOptimizer optimizer(own.parameters(), {.rule = ttt.ttt_optimizer,
                                                  .lr = ttt.ttt_lora_lr,
                                                  .beta1 = ttt.ttt_beta1,
                                                  .beta2 = ttt.ttt_beta2,
                                                  .weight_decay = ttt.ttt_weight_decay});
    const at::AutoGradMode with_gradients(true);
    const auto size = ttt.ttt_chunk_size;
    for (std::int64_t begin = 0; begin < batch.longest() - 1; begin += size) {
      const auto end = std::min(begin + size, document.predictions());
      const auto from = std::max<std::int64_t>(0, end - ttt.ttt_eval_seq_len);
      const bool learns = end < document.predictions();
      const bool any_learns = begin + size < batch.longest() - 1;
      for (int pass = 0; pass < (any_learns ? ttt.ttt_grad_steps : 1); ++pass) {
        own.parameters().mutable_grad().zero_();
        if (begin < end) {
          const auto nll =
              model_.gpt.adapted_losses(row(document.start + from, end - from),
                                        row(document.start + from + 1, end - from), own);
          const auto values = test::values_of(nll);
          for (auto t = begin; t < end && pass == 0; ++t)
            losses_[static_cast<std::size_t>(document.start + t)] =
                values[static_cast<std::size_t>(t - from)];
          if (learns) nll.narrow(1, begin - from, size).mean().backward();
        }
        if (any_learns) optimizer.step();
      }
    }
  }

  void train(std::size_t last_batch, std::size_t boundary) {
    std::vector<DocumentSpan> documents;
    for (std::size_t i = last_batch + 1; i > 0; --i)
      documents.insert(documents.end(), batches_[i - 1].documents.begin(),
                       batches_[i - 1].documents.end());
    documents.resize(boundary);
    Tokens joined;
    for (const auto& [start, length] : documents) {
      if (!joined.empty() && joined.back() == kBos && !options_.record_quirks) joined.pop_back();
      joined.insert(joined.end(), tokens_.begin() + start, tokens_.begin() + start + length);
    }
    Communicator alone;
    train_base(model_.gpt, model_.table, joined,
               {.config = options_.config, .bos_id = kBos, .seq_len = options_.seq_len}, at::kCPU,
               alone);
  }

  static std::vector<std::string> names_of_a() {
    std::vector<std::string> names{"lm_head_lora.A"};
    for (const char* list : {"q_loras", "v_loras", "k_loras", "mlp_loras", "o_loras"})
      for (int visit = 0; visit < 3; ++visit) names.push_back(fmt::format("{}.{}.A", list, visit));
    return names;
  }
  at::Tensor row(std::int64_t begin, std::int64_t count) const {
    const std::vector<std::int64_t> ids(tokens_.begin() + begin, tokens_.begin() + begin + count);
    return at::tensor(ids, at::kLong).unsqueeze(0);
  }

  const Tokens& tokens_;
  const PhasedTttOptions& options_;
  test::TwoLayers model_;
  std::vector<Slot> slots_;
  std::vector<double> losses_;
  const std::vector<DocumentBatch> batches_;
};

void expect_the_losses_of_the_plain_loop(const test::TttRun& run, const Tokens& tokens,
                                         const PhasedTttOptions& options) {
  const auto expected = PlainLoop(tokens, options).losses();
  double sum = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    EXPECT_NEAR(run.losses[t], expected[t], 1e-6) << t;
    sum += expected[t];
  }
  EXPECT_NEAR(run.score.loss, sum / static_cast<double>(expected.size()), 1e-7);
}

// An incomplete batch with its own adapter set and a full one, each followed by a phase and a new
// A, and two full batches, the second of which starts with the first one's A.
TEST(PhasedTtt, ScoresEveryChunkByWhatEarlierChunksAndDocumentsTaught) {
  const auto tokens = documents_of(kLengths);
  auto two_steps = options_of(), cold = options_of();
  two_steps.config.ttt_grad_steps = 2;
  two_steps.record_quirks = true;
  cold.config.ttt_warm_start_a = false;
  cold.config.ttt_optimizer = TttOptimizer::sgd;
  cold.config.ttt_beta1 = 0.9;
  cold.config.ttt_lora_lr = 0.5;
  for (const auto& options : {options_of(), two_steps, cold})
    expect_the_losses_of_the_plain_loop(run_ttt(tokens, options), tokens, options);
}

// The weights learn the same as without batches in flight.
TEST(PhasedTtt, AGoesFromABatchToTheNextOfItsSlot) {
  const auto tokens = documents_of(kManyLengths);
  Communicator alone;
  for (const bool warm : {true, false}) {
    auto options = options_of();
    options.config.ttt_warm_start_a = warm;
    test::TwoLayers one_after_the_other;
    const auto before = run_ttt(tokens, options, alone, one_after_the_other);
    for (const int concurrent : warm ? std::vector{2, 3} : std::vector{2}) {
      options.config.ttt_concurrent_batches = concurrent;
      test::TwoLayers model;
      const auto run = run_ttt(tokens, options, alone, model);
      expect_the_losses_of_the_plain_loop(run, tokens, options);
      EXPECT_NE(run.losses, before.losses);
      test::expect_same_weights(model.table, one_after_the_other.table);
    }
  }
}

// Changes tokens from place t of a document on: the first loss that changes is that token's
// prediction.
class PhasedTttLegality : public testing::TestWithParam<int> {};

TEST_P(PhasedTttLegality, NoScoreChangesWhenLaterTokensOfItsDocumentDoNorOneThatIsScoredBefore) {
  const auto tokens = documents_of(kLengths);
  auto options = options_of();
  options.config.ttt_concurrent_batches = GetParam();
  const auto before = run_ttt(tokens, options).losses;
  EXPECT_EQ(run_ttt(tokens, options).losses, before);
  const auto batches = batch_by_length(find_documents(tokens, kBos), 3);
  ASSERT_EQ(batches.size(), 4U);
  for (std::size_t place = 0; place < batches.size(); ++place) {
    const auto& changed = batches[place].documents.back();
    for (const std::int64_t t : {changed.length - 2, changed.length / 2, std::int64_t{1}}) {
      auto others = tokens;
      for (auto i = changed.start + t; i < changed.start + changed.length - 1; ++i) {
        auto& token = others[static_cast<std::size_t>(i)];
        token = static_cast<TokenId>(2 + (token - 1) % (kVocab - 2));
      }
      const auto after = run_ttt(others, options).losses;
      const auto changes = [&](const DocumentSpan& document) {
        std::int64_t first = 0;
        while (first < document.predictions() &&
               after[static_cast<std::size_t>(document.start + first)] ==
                   before[static_cast<std::size_t>(document.start + first)])
          ++first;
        return first;
      };
      EXPECT_EQ(changes(changed), t - 1) << "batch " << place;
      bool later_changed = false;
      for (std::size_t i = 0; i < batches.size(); ++i) {
        for (const auto& document : batches[i].documents) {
          if (document == changed) continue;
          const bool same = changes(document) == document.predictions();
          EXPECT_TRUE(same || i > place) << place << ", " << i;
          later_changed |= !same;
        }
      }
      // The longest document is in the first phase. The third batch's document uses the adapter row
      // of one in the last batch, unless both are scored concurrently. The second batch's document
      // is not trained on later.
      if (t == 1) {
        EXPECT_EQ(later_changed, place == 0 || (place == 2 && GetParam() == 1))
            << "batch " << place;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(ConcurrentBatches, PhasedTttLegality, testing::Values(1, 2));

struct Split {
  Lengths lengths;
  std::int64_t batch_size, prefix_docs, phases;
};
const Split kSplits[] = {
    {kLengths, 3, 6, 2},         // phases between all batches except the first two
    {kLengths, 3, 0, 2},         // no phases
    {kLengths, 3, 100, 3},       // a phase after the last batch
    {kLengths, 20, 6, 2},        // one batch, fewer than ranks
    {{2, 2, 2, 2, 2}, 1, 2, 1},  // nothing to learn
    {{9}, 4, 1, 3},              // one document
};

TEST(PhasedTtt, ScoresEveryTokenOnceOnAnyNumberOfRanksWithOneResult) {
  for (const auto& [lengths, batch_size, prefix_docs, phases] : kSplits) {
    const auto tokens = documents_of(lengths);
    auto options = options_of();
    options.config.ttt_batch_size = batch_size;
    options.config.phased_ttt_prefix_docs = prefix_docs;
    options.config.phased_ttt_num_phases = phases;
    std::vector<std::pair<int, int>> counts{{1, 1}, {3, 1}, {2, 2}};
    if (lengths == kLengths && prefix_docs == 6) counts.insert(counts.end(), {{2, 1}, {1, 16}});
    for (const auto& [world, concurrent] : counts) {
      SCOPED_TRACE(fmt::format("{} documents, {} ranks, {} batches in flight", lengths.size(),
                               world, concurrent));
      options.config.ttt_concurrent_batches = concurrent;
      std::vector<test::TttRun> runs(static_cast<std::size_t>(world));
      std::vector<test::TwoLayers> models(static_cast<std::size_t>(world));
      const auto work = [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        runs[rank] = run_ttt(tokens, options, communicator, models[rank]);
      };
      if (world == 1) {
        Communicator alone;
        work(alone);
      } else {
        test::as_ranks(world, work);
      }
      double sum = 0;
      for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
        int times = 0;
        for (const auto& run : runs) {
          if (std::isnan(run.losses[t])) continue;
          sum += run.losses[t];
          ++times;
        }
        EXPECT_EQ(times, 1) << "token " << t;
      }
      for (std::size_t rank = 0; rank < runs.size(); ++rank) {
        EXPECT_NEAR(runs[rank].score.loss, sum / static_cast<double>(tokens.size() - 1), 1e-7);
        const auto& rows = models[rank].table.rows();
        for (std::size_t i = 0; i < rows.size(); ++i)
          EXPECT_TRUE(
              test::is_same(rows[i].value.detach(), models[0].table.rows()[i].value.detach()))
              << rows[i].name;
      }
    }
  }
}

TEST(PhasedTtt, ScoresTheFirstDocumentsOfAFraction) {
  auto options = options_of();
  options.config.val_doc_fraction = 0.3;
  const auto losses = run_ttt(documents_of(kLengths), options).losses;
  const auto scored = kLengths[0] + kLengths[1] + kLengths[2] - 3;
  for (std::size_t t = 0; t < losses.size(); ++t)
    EXPECT_EQ(std::isnan(losses[t]), static_cast<std::int64_t>(t) >= scored) << t;
}

// Every token stands for two bytes.
TEST(PhasedTtt, LogsTheReferencesLinesAndCountsTheBytesOfItsTargets) {
  const auto tokens = documents_of({20, 12, 9, 26});
  const TextBytes bytes{.sidecar = std::make_shared<test::ListedTokens>(Tokens(tokens.size(), 2))};
  auto options = options_of();
  options.config.phased_ttt_prefix_docs = 3;
  options.config.phased_ttt_num_phases = 1;
  const auto lines_of_run = [&] {
    Communicator alone;
    test::TwoLayers model;
    testing::internal::CaptureStdout();
    const auto run = run_ttt(tokens, options, alone, model, &bytes);
    EXPECT_NEAR(*run.score.bpb, run.score.loss / std::numbers::ln2 / 2, 1e-12);
    return testing::internal::GetCapturedStdout();
  };
  auto lines = lines_of_run();
  const std::string loss = R"(\d\.\d{4})", time = R"(t:\d+\.\ds\n)";
  const auto batch = [&](const char* number, const char* lengths, const char* trained) {
    return fmt::format("ttp: b{0} bl:{1} bb:{1} rl:{1} rb:{1} dl:{2} gd:{3}\n", number, loss,
                       lengths, trained);
  };
  const std::string plan =
      R"(ttt_phased: total_docs:4 prefix_docs:3 suffix_docs:1 num_phases:1 boundaries:\[3\]\n)";
  const auto phase = "ttpp: phase:1/1 pd:4 gd:3 " + time + "tttg: c1/2 lr:0\\.100000 " + time +
                     "ttpr: phase:1/1 " + time;
  const auto longest = batch("2/2", "26-26", "0"), others = batch("1/2", "9-20", "0");
  EXPECT_TRUE(std::regex_match(lines, std::regex(plan + longest + others + phase))) << lines;
  // The shorter batch's last chunk comes first.
  options.config.ttt_concurrent_batches = 2;
  lines = lines_of_run();
  EXPECT_TRUE(std::regex_match(
      lines, std::regex(plan + "ttt_concurrent_batches:2\n" + others + longest + phase)))
      << lines;
}

TEST(PhasedTtt, WarnsThatASplitWithoutBosIsOneDocument) {
  auto tokens = documents_of({9});
  const auto warnings = [&] {
    testing::internal::CaptureStderr();
    run_ttt(tokens, options_of());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings().find("WARN"), std::string::npos);
  tokens[0] = 2;
  const auto text = warnings();
  EXPECT_NE(text.find(fmt::format("no token of the split is BOS_ID={}, ", kBos)), std::string::npos)
      << text;
}

}  // namespace
}  // namespace tg
