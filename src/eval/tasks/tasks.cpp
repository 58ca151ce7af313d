#include "eval/tasks/tasks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "eval/scores/score.h"
#include "eval/scores/windows.h"
#include "eval/tasks/continuations.h"

namespace tg {

namespace {

// Returns a row of tokens. `text` begins with the space before its first word. `line`: in the file,
// for messages.
Continuation row_of(const Tokenizer& tokenizer, const TaskOptions& options,
                    const std::string& context, const std::string& text, std::int64_t line) {
  Continuation row;
  const auto bos = tokenizer.bos_id();
  if (bos >= 0 && !tokenizer.byte_level()) row.ids.push_back(static_cast<TokenId>(bos));
  tokenizer.encode(context, row.ids);
  if (row.ids.empty() && bos >= 0) row.ids.push_back(static_cast<TokenId>(bos));
  REQUIRE(!row.ids.empty(), ExitCode::bad_data,
          "{} line {}: expected a context, found none, and the tokenizer has no token that begins "
          "a text",
          options.path, line);
  const auto before = std::ssize(row.ids);
  tokenizer.encode_continued(text, row.ids);
  row.scored = std::ssize(row.ids) - before;
  REQUIRE(row.scored <= options.context, ExitCode::bad_data,
          "{} line {}: expected at most EVAL_SEQ_LEN={} tokens to score, found {}", options.path,
          line, options.context, row.scored);
  return row;
}

// Returns the number of rows whose context is too long.
double count_truncated(const std::vector<Continuation>& rows, const TaskOptions& options) {
  return static_cast<double>(std::ranges::count_if(
      rows, [&](const auto& row) { return std::ssize(row.ids) - 1 > options.context; }));
}

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
  const auto sums = at::tensor(at::ArrayRef<double>(own.data(), kCount), at::kDouble).to(device);
  const auto host = sum_on_host(sums, communicator);
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
  const auto own = rank_range(examples, communicator.rank(), communicator.world_size());
  std::vector<Continuation> rows;
  for (const auto& example : own) {
    for (const auto& ending : example.endings)
      rows.push_back(row_of(tokenizer, options, example.context, " " + ending, example.line));
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
    for (const auto& divisors : {any, characters, bytes, tokens})
      sums[sum++] += best_of(of_four, divisors) == own[i].label ? 1 : 0;
  }
  sums[4] = count_truncated(rows, options);
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
  std::vector<Continuation> rows;
  for (const auto& example : rank_range(examples, communicator.rank(), communicator.world_size()))
    rows.push_back(row_of(tokenizer, options, example.context, example.target, example.line));
  std::array<double, 3> sums{};
  for (const auto& score :
       score_rows(model, tokenizer, rows, "lambada", options, device, communicator)) {
    sums[0] += score.greedy ? 1 : 0;
    sums[1] += score.log_probability;
  }
  sums[2] = count_truncated(rows, options);
  const auto all = add_other_ranks(sums, device, communicator);
  const auto count = static_cast<double>(examples.size());
  return {.acc = all[0] / count,
          .perplexity = std::exp(-all[1] / count),
          .truncated = std::llround(all[2])};
}

}  // namespace tg
