#include "eval/tasks/continuations.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "eval/scores/eta.h"

namespace tg {

namespace {

// A continuation's last tokens that fit the context, and the one after them.
struct Row {
  std::span<const TokenId> ids;
  std::int64_t scored;

  std::int64_t length() const { return std::ssize(ids) - 1; }
  std::int64_t first_scored() const { return length() - scored; }
};

Row row_of(const Continuation& continuation, std::int64_t context) {
  const std::span all(continuation.ids);
  assert(continuation.scored <= context && continuation.scored < std::ssize(all));
  return {all.last(std::min(all.size(), static_cast<std::size_t>(context) + 1)),
          continuation.scored};
}

// Rounds lengths up, so that few occur: libraries plan their kernels for each.
std::int64_t padded_length(std::int64_t length, std::int64_t context) {
  constexpr std::int64_t kMultiple = 32;
  return std::min((std::max<std::int64_t>(length, 1) + kMultiple - 1) / kMultiple * kMultiple,
                  context);
}

// At most 1 GiB of fp32 logits, and a bound on activations.
std::int64_t rows_at_once(std::int64_t length, std::int64_t vocab, at::Device device) {
  const std::int64_t tokens = device.is_cuda() ? 65536 : 8192;
  return std::max<std::int64_t>(1, std::min(tokens, (std::int64_t{1} << 28) / vocab) / length);
}

// Rows padded to one length, on the device.
struct Batch {
  Positions scored;  // range of positions scored in any row
  at::Tensor inputs, targets,
      is_scored;  // [B, T] int64; at the scored positions [B, S] int64, bool
};

Batch make_batch(std::span<const Row> rows, std::int64_t length, at::Device device) {
  std::int64_t from = length - 1;
  for (const auto& row : rows) from = std::min(from, row.first_scored());
  const auto count = std::ssize(rows);
  const auto inputs = at::zeros({count, length}, at::kLong);
  const auto targets = at::zeros({count, length - from}, at::kLong);
  const auto is_scored = at::zeros({count, length - from}, at::kBool);
  auto* input = inputs.mutable_data_ptr<std::int64_t>();
  auto* target = targets.mutable_data_ptr<std::int64_t>();
  auto* scored = is_scored.mutable_data_ptr<bool>();
  for (const auto& row : rows) {
    std::copy(row.ids.begin(), row.ids.end() - 1, input);
    std::copy(row.ids.begin() + from + 1, row.ids.end(), target);
    std::fill(scored + (row.first_scored() - from), scored + (row.length() - from), true);
    input += length, target += length - from, scored += length - from;
  }
  return {{from, length}, inputs.to(device), targets.to(device), is_scored.to(device)};
}

// Returns [2, B] fp64: sums of log-probabilities, and whether all scored tokens are the argmax.
at::Tensor score_batch(const Gpt& model, const Batch& batch, const ContinuationOptions& options) {
  const auto logits = model.logits(batch.inputs, batch.scored, options.context);
  const auto of_targets = logits.gather(2, batch.targets.unsqueeze(2)).squeeze(2);
  const auto log_probability = (of_targets - logits.logsumexp(2)).to(at::kDouble);
  const auto likeliest = logits.narrow(2, 0, options.pieces).argmax(2);
  const auto greedy = likeliest.eq(batch.targets).logical_or(batch.is_scored.logical_not()).all(1);
  return at::stack({(log_probability * batch.is_scored).sum(1), greedy.to(at::kDouble)});
}

}  // namespace

std::vector<ContinuationScore> score_continuations(const Gpt& model,
                                                   std::span<const Continuation> continuations,
                                                   const ContinuationOptions& options,
                                                   at::Device device, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  std::vector<Row> rows;
  for (const auto& continuation : continuations)
    rows.push_back(row_of(continuation, options.context));
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Longest first, so that running out of memory happens at once.
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return rows[i].length(); });
  std::vector<ContinuationScore> scores(rows.size());
  const EtaLine eta(options.name);
  for (std::size_t begin = 0; begin < order.size();) {
    const auto length = padded_length(rows[order[begin]].length(), options.context);
    const auto most = static_cast<std::size_t>(rows_at_once(length, model.vocab_size(), device));
    const auto end = std::min(order.size(), begin + most);
    std::vector<Row> taken;
    for (auto i = begin; i < end; ++i) taken.push_back(rows[order[i]]);
    const auto found = score_batch(model, make_batch(taken, length, device), options).cpu();
    const auto* const numbers = found.const_data_ptr<double>();
    for (auto i = begin; i < end; ++i)
      scores[order[i]] = {numbers[i - begin], numbers[end - begin + i - begin] != 0};
    communicator.progress();
    begin = end;
    eta(static_cast<std::int64_t>(begin), std::ssize(order));
  }
  return scores;
}

}  // namespace tg
