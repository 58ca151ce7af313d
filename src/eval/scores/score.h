#pragma once
#include <ATen/ATen.h>

#include <optional>

#include "comm/communicator.h"

namespace tg {

struct Score {
  double loss;                // mean negative log-likelihood of a token, in nats
  std::optional<double> bpb;  // Σnll / ln 2 / Σbytes; absent without tokenizer and sidecar
  std::optional<double> unmasked_loss{};  // loss without VALIDATION_MASK's mask; absent without it
};

// Sums of a score, in fp64 on the device until score() reads them: Σnll, tokens, bytes.
class ScoreSums {
 public:
  explicit ScoreSums(at::Device device)
      : sums_(at::zeros({3}, at::TensorOptions(device).dtype(at::kDouble))) {}

  // Adds a mean [] over `tokens` tokens; the nll of each token, of any shape; or the nll of the
  // `tokens` tokens that are `scored`, a bool tensor of the same shape.
  void add_mean(const at::Tensor& mean_nll, std::int64_t tokens) {
    add_sum(mean_nll.to(at::kDouble) * tokens, tokens);
  }
  void add(const at::Tensor& nll) { add_sum(nll.sum(at::kDouble), nll.numel()); }
  void add(const at::Tensor& nll, const at::Tensor& scored, std::int64_t tokens) {
    add_sum(nll.masked_fill(scored.logical_not(), 0).sum(at::kDouble), tokens);
  }
  void add(const ScoreSums& others) { sums_ += others.sums_; }
  void add_bytes(std::int64_t count) { sums_[2] += count; }
  void add_bytes(const at::Tensor& count) { sums_[2] += count; }
  // [3] fp64, for saving and restoring.
  const at::Tensor& values() const { return sums_; }

  // A copy in host memory; waits for the current stream.
  ScoreSums on_host() const;
  double tokens() const { return sums_.cpu().const_data_ptr<double>()[1]; }
  // Waits for the device. Without bytes there is no bpb.
  Score score() const;
  // Adds the sums of the other ranks first. Collective: all ranks return the same score.
  Score score_of_all_ranks(Communicator& communicator);

 private:
  void add_sum(const at::Tensor& nll_sum, std::int64_t tokens);  // [] fp64

  at::Tensor sums_;
};

// Returns the sum over ranks of a tensor on the device, in host memory. Overwrites the tensor.
// Collective.
at::Tensor sum_on_host(const at::Tensor& on_device, Communicator& communicator);

}  // namespace tg
