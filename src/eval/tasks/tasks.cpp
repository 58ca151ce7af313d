#include "eval/tasks/tasks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/tasks/continuations.h"

namespace tg {

namespace {

template <class Example>
std::span<const Example> share_of(std::span<const Example> examples,
                                  const Communicator& communicator) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto world = static_cast<std::size_t>(communicator.world_size());
  const auto begin = examples.size() * rank / world, end = examples.size() * (rank + 1) / world;
  return examples.subspan(begin, end - begin);
}

// Tokenizes texts into rows.
class RowMaker {
 public:
  RowMaker(const Tokenizer& tokenizer, const TaskOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  // `text` begins with the space before its first word. `line`: in the file, for messages.
  Continuation row(const std::string& context, const std::string& text, std::int64_t line) {
    Continuation row;
    const auto bos = tokenizer_.bos_id();
    if (bos >= 0 && !tokenizer_.byte_level()) row.ids.push_back(static_cast<TokenId>(bos));
    tokenizer_.encode(context, row.ids);
    if (row.ids.empty() && bos >= 0) row.ids.push_back(static_cast<TokenId>(bos));
    REQUIRE(
        !row.ids.empty(), ExitCode::bad_data,
        "{} line {}: expected a context, found none, and the tokenizer has no token that begins "
        "a text",
        options_.path, line);
    const auto before = std::ssize(row.ids);
    tokenizer_.encode_continued(text, row.ids);
    row.scored = std::ssize(row.ids) - before;
    REQUIRE(row.scored <= options_.context, ExitCode::bad_data,
            "{} line {}: expected at most EVAL_SEQ_LEN={} tokens to score, found {}", options_.path,
            line, options_.context, row.scored);
    if (std::ssize(row.ids) - 1 > options_.context) ++truncated_;
    return row;
  }
  std::int64_t truncated() const { return truncated_; }

 private:
  const Tokenizer& tokenizer_;
  const TaskOptions& options_;
  std::int64_t truncated_ = 0;
};

std::vector<ContinuationScore> score_rows(Gpt& model, const Tokenizer& tokenizer,
                                          std::span<const Continuation> rows,
                                          const std::string& name, const TaskOptions& options,
                                          at::Device device, Communicator& communicator) {
  model.set_fake_quant(false);
  model.cast_weights();
  return score_continuations(
      model, rows, {.name = name, .context = options.context, .pieces = tokenizer.pieces()}, device,
      communicator);
}

// Sums over all ranks.
template <std::size_t kCount>
std::array<double, kCount> add_other_ranks(const std::array<double, kCount>& own, at::Device device,
                                           Communicator& communicator) {
  auto sums = at::tensor(at::ArrayRef<double>(own.data(), kCount), at::kDouble).to(device);
  communicator.sum(sums).wait();
  const PeerWatch::Scope waiting(communicator.watch());
  const auto host = sums.cpu();
  std::array<double, kCount> all;
  std::copy_n(host.template const_data_ptr<double>(), kCount, all.begin());
  return all;
}

// The index of the largest quotient; a divisor of 0 excludes its quotient.
std::size_t best_of(std::span<const ContinuationScore> scores,
                    const std::array<std::int64_t, 4>& divisors) {
  std::array<double, 4> quotients;
  for (std::size_t i = 0; i < 4; ++i) {
    quotients[i] = divisors[i] == 0 ? -std::numeric_limits<double>::infinity()
                                    : scores[i].log_probability / static_cast<double>(divisors[i]);
  }
  return static_cast<std::size_t>(std::ranges::max_element(quotients) - quotients.begin());
}

}  // namespace

HellaSwagScore hellaswag_score(Gpt& model, const Tokenizer& tokenizer,
                               std::span<const HellaSwagExample> examples,
                               const TaskOptions& options, at::Device device,
                               Communicator& communicator) {
  const auto own = share_of(examples, communicator);
  RowMaker maker(tokenizer, options);
  std::vector<Continuation> rows;
  for (const auto& example : own) {
    for (const auto& ending : example.endings) {
      rows.push_back(maker.row(example.context, " " + ending, example.line));
    }
  }
  const auto scores =
      score_rows(model, tokenizer, rows, "hellaswag", options, device, communicator);
  std::array<double, 5> sums{};
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::array<std::int64_t, 4> any, characters, bytes, tokens;
    for (std::size_t k = 0; k < 4; ++k) {
      const auto& ending = own[i].endings[k];
      tokens[k] = rows[4 * i + k].scored;
      any[k] = tokens[k] > 0 ? 1 : 0;
      characters[k] = count_utf8_characters(ending);
      bytes[k] = std::ssize(ending);
    }
    const auto of_four = std::span(scores).subspan(4 * i, 4);
    std::size_t sum = 0;
    for (const auto& divisors : {any, characters, bytes, tokens}) {
      sums[sum++] += best_of(of_four, divisors) == own[i].label ? 1 : 0;
    }
  }
  sums[4] = static_cast<double>(maker.truncated());
  const auto all = add_other_ranks(sums, device, communicator);
  const auto count = static_cast<double>(examples.size());
  return {.acc = all[0] / count,
          .acc_norm = all[1] / count,
          .acc_bytes = all[2] / count,
          .acc_token = all[3] / count,
          .truncated = std::llround(all[4])};
}

LambadaScore lambada_score(Gpt& model, const Tokenizer& tokenizer,
                           std::span<const LambadaExample> examples, const TaskOptions& options,
                           at::Device device, Communicator& communicator) {
  RowMaker maker(tokenizer, options);
  std::vector<Continuation> rows;
  for (const auto& example : share_of(examples, communicator)) {
    rows.push_back(maker.row(example.context, example.target, example.line));
  }
  std::array<double, 3> sums{};
  for (const auto& score :
       score_rows(model, tokenizer, rows, "lambada", options, device, communicator)) {
    sums[0] += score.greedy ? 1 : 0;
    sums[1] += score.log_probability;
  }
  sums[2] = static_cast<double>(maker.truncated());
  const auto all = add_other_ranks(sums, device, communicator);
  const auto count = static_cast<double>(examples.size());
  return {.acc = all[0] / count,
          .perplexity = std::exp(-all[1] / count),
          .truncated = std::llround(all[2])};
}

}  // namespace tg
