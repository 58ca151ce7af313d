#include "ops/attention/composed_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace tg {

namespace {

// Queries in blocks of equal size, each with all keys that its queries see.
class Blocks {
 public:
  Blocks(std::int64_t queries, std::int64_t keys, std::int64_t window)
      : queries_(queries),
        first_(keys - queries),
        lead_(std::min(window, keys) - 1),
        size_(std::min(lead_ + 1, queries)),
        count_((queries + size_ - 1) / size_) {}

  // x [B, S, …] → [B, blocks, size, …]; zeros behind the last query.
  at::Tensor of_queries(const at::Tensor& x) const {
    return padded(x, 0, count_ * size_ - queries_).unflatten(1, {count_, size_});
  }
  // x [B, T, …] → [B, blocks, …, lead + size]: the keys of the block and `lead` ones before; zeros
  // before the first key and behind the last.
  at::Tensor of_keys(const at::Tensor& x) const {
    const auto from = std::max<std::int64_t>(first_ - lead_, 0);
    return padded(x.slice(1, from), lead_ - (first_ - from), count_ * size_ - queries_)
        .unfold(1, lead_ + size_, size_);
  }
  // [B, blocks, size, …] → [B, S, …].
  at::Tensor whole(const at::Tensor& x) const { return x.flatten(1, 2).narrow(1, 0, queries_); }

  // Whether a key is hidden, [B, blocks, 1, size, lead + size] bool; `until` [B, T] as
  // visible_until(). A query behind the last one sees its own key, so that no softmax is empty.
  at::Tensor hidden(const at::Tensor& until) const {
    const auto positions =
        at::arange(first_, first_ + count_ * size_, until.options()).view({1, count_, size_, 1});
    const auto later = at::ones({size_, lead_ + size_}, until.options().dtype(at::kBool));
    const auto ended =
        positions.ge(of_keys(until).unsqueeze(2)).logical_and(positions.lt(first_ + queries_));
    return ended.logical_or(later.triu(lead_ + 1)).unsqueeze(2);
  }

 private:
  // x [B, positions, …] with so many zeros before and behind.
  static at::Tensor padded(const at::Tensor& x, std::int64_t before, std::int64_t behind) {
    std::vector<std::int64_t> sides(2 * static_cast<std::size_t>(x.dim() - 1));
    sides[sides.size() - 2] = before;
    sides.back() = behind;
    return at::constant_pad_nd(x, sides);
  }

  std::int64_t queries_, first_, lead_, size_, count_;
};

at::Tensor normalized(const at::Tensor& w) {
  return w * (w.square().mean(-1, /*keepdim=*/true) + 1e-6).rsqrt();
}

}  // namespace

at::Tensor composed_attention(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd, const HeadComposition& composition) {
  const auto& [pre, post, scale, window, documents] = composition;
  const auto dtype = q_bshd.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Blocks blocks(q_bshd.size(1), k_bthd.size(1), window);
  // [B, blocks, heads, size, lead + size]
  const auto q = blocks.of_queries(q_bshd).transpose(2, 3);
  const auto scores = at::matmul(q, blocks.of_keys(k_bthd)).to(dtype) * scale;
  const auto hidden = blocks.hidden(visible_until(k_bthd, documents, window));
  const auto shares = scores.masked_fill(hidden, std::numeric_limits<float>::lowest()).softmax(-1);
  const auto weights = blocks.of_queries(normalized(pre.to(dtype))).transpose(2, 3).unsqueeze(-1);
  const auto composed = (shares * weights).sum(2).to(v_bthd.scalar_type());
  const auto v = blocks.of_keys(v_bthd).flatten(2, 3).transpose(2, 3);
  const auto y = blocks.whole(at::matmul(composed, v)).unflatten(-1, {v_bthd.size(2), -1});
  return y * post.to(y.scalar_type()).unsqueeze(-1);
}

}  // namespace tg
