#include "optim/reduction.h"

#include <algorithm>
#include <numeric>

#include "optim/gradient_norm.h"

namespace tg {

namespace {

// Below this a tensor is packed with others; above it, copying costs more than a collective.
constexpr std::int64_t kPackedElements = 1 << 20;

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

at::Tensor norm_of(const std::vector<at::Tensor>& tensors) {
  return global_norm(tensors).to(at::kFloat);
}

bool is_packed(const at::Tensor& gradient) {
  return gradient.numel() < kPackedElements;
}

}  // namespace

Reduction::Reduction(const ParameterTable& table, Communicator& communicator,
                     at::ScalarType bank_dtype)
    : communicator_(communicator), bank_dtype_(bank_dtype) {
  for (const auto& row : table.rows()) part_of(row.reduction()).push_back(row.value);
  shards_.resize(banks_.size());
  padded_.resize(banks_.size());
  pending_.resize(banks_.size());
}

std::vector<at::Tensor>& Reduction::part_of(GradientReduction reduction) {
  switch (reduction) {
    case GradientReduction::reduce_scatter:
      return banks_;
    case GradientReduction::none:
      return unreduced_;
    case GradientReduction::all_reduce:
      break;
  }
  return replicated_;
}

void Reduction::start_banks() {
  std::vector<std::size_t> order(banks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return banks_[a].numel() > banks_[b].numel();
  });
  const auto world = communicator_.world_size();
  for (const auto i : order) {
    const auto gradient = as_bank(banks_[i].grad());
    if (world == 1) {
      shards_[i] = gradient.to(bank_dtype_);
      continue;
    }
    const auto share = matrices_of_a_rank(gradient.size(0), world);
    if (!padded_[i].defined()) {
      padded_[i] = at::zeros({share * world, gradient.size(1), gradient.size(2)},
                             gradient.options().dtype(bank_dtype_));
      shards_[i] = at::empty({share, gradient.size(1), gradient.size(2)}, padded_[i].options());
    }
    padded_[i].narrow(0, 0, gradient.size(0)).copy_(gradient);
    pending_[i] = communicator_.reduce_scatter(shards_[i], padded_[i]);
  }
}

at::Tensor Reduction::pack(const at::Tensor& numbers) const {
  std::vector<at::Tensor> parts{numbers};
  for (const auto& gradient : gradients_of(replicated_)) {
    if (is_packed(gradient)) parts.push_back(gradient.flatten().to(at::kFloat));
  }
  return at::cat(parts);
}

void Reduction::unpack(const at::Tensor& packed, const at::Tensor& numbers) {
  numbers.copy_(packed.narrow(0, 0, numbers.numel()));
  std::int64_t at = numbers.numel();
  for (const auto& gradient : gradients_of(replicated_)) {
    if (!is_packed(gradient)) continue;
    gradient.copy_(packed.narrow(0, at, gradient.numel()).view(gradient.sizes()));
    at += gradient.numel();
  }
}

void Reduction::reduce(const at::Tensor& numbers) {
  const at::NoGradGuard no_grad;
  start_banks();
  if (communicator_.world_size() == 1) return;
  std::vector<Pending> large;
  for (const auto& gradient : gradients_of(replicated_)) {
    if (!is_packed(gradient)) large.push_back(communicator_.sum(gradient));
  }
  const auto packed = pack(numbers);
  communicator_.sum(packed).wait();
  unpack(packed, numbers);
  for (auto& pending : large) pending.wait();
  for (auto& pending : pending_) pending.wait();
}

at::Tensor Reduction::norm() {
  const at::NoGradGuard no_grad;
  const auto replicated = gradients_of(replicated_);
  if (communicator_.world_size() == 1) {
    auto all = shards_;
    all.insert(all.end(), replicated.begin(), replicated.end());
    return norm_of(all);
  }
  if (shards_.empty()) return norm_of(replicated);
  auto squares = norm_of(shards_).square();
  communicator_.sum(squares).wait();
  return (squares + norm_of(replicated).square()).sqrt();
}

at::Tensor Reduction::local_norm() const {
  const at::NoGradGuard no_grad;
  return norm_of(local_gradients());
}

void Reduction::drop_shards() {
  if (communicator_.world_size() == 1) shards_.assign(shards_.size(), at::Tensor());
}

void Reduction::scale_local(const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(local_gradients(), factor);
}

std::vector<at::Tensor> Reduction::local_gradients() const {
  std::vector<at::Tensor> all;
  for (const auto* part : {&banks_, &replicated_, &unreduced_}) {
    const auto gradients = gradients_of(*part);
    all.insert(all.end(), gradients.begin(), gradients.end());
  }
  return all;
}

void Reduction::drop_unreduced(const at::Tensor& skip) {
  const at::NoGradGuard no_grad;
  // Not times zero: that keeps a NaN.
  for (auto& gradient : gradients_of(unreduced_)) gradient.masked_fill_(skip.to(at::kBool), 0);
}

void Reduction::scale_replicated(const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(gradients_of(replicated_), factor);
}

}  // namespace tg
