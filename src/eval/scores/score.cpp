#include "eval/scores/score.h"

#include <numbers>

namespace tg {

void ScoreSums::add_mean(const at::Tensor& mean_nll, std::int64_t tokens) {
  sums_[0] += mean_nll.to(at::kDouble) * tokens;
  sums_[1] += tokens;
}

void ScoreSums::add(const at::Tensor& nll) {
  add_sum(nll.sum(at::kDouble), nll.numel());
}

void ScoreSums::add_sum(const at::Tensor& nll_sum, std::int64_t tokens) {
  sums_[0] += nll_sum;
  sums_[1] += tokens;
}

ScoreSums ScoreSums::on_host() const {
  ScoreSums copy(at::kCPU);
  copy.sums_.copy_(sums_);
  return copy;
}

Score ScoreSums::score_of_all_ranks(Communicator& communicator) {
  communicator.sum(sums_).wait();
  const PeerWatch::Scope waiting(communicator.watch());
  return score();
}

Score ScoreSums::score() const {
  const auto host = sums_.cpu();
  const auto* const sums = host.const_data_ptr<double>();
  Score score{.loss = sums[0] / sums[1], .bpb = {}};
  if (sums[2] > 0) score.bpb = sums[0] / std::numbers::ln2 / sums[2];
  return score;
}

}  // namespace tg
