#include "eval/scores/score.h"

#include <numbers>

namespace tg {

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
  sums_ = sum_on_host(sums_, communicator);
  return score();
}

Score ScoreSums::score() const {
  const auto host = sums_.cpu();
  const auto* const sums = host.const_data_ptr<double>();
  Score score{.loss = sums[0] / sums[1], .bpb = {}};
  if (sums[2] > 0) score.bpb = sums[0] / std::numbers::ln2 / sums[2];
  return score;
}

at::Tensor sum_on_host(const at::Tensor& on_device, Communicator& communicator) {
  communicator.sum(on_device).wait();
  const PeerWatch::Scope waiting(communicator.watch());
  return on_device.cpu();
}

}  // namespace tg
