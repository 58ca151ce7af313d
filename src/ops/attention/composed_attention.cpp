#include "ops/attention/composed_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/attention/kernels/composed_attention_kernel.h"
#include "ops/attention/kernels/head_vectors.h"
#include "ops/operands.h"

namespace tg {

namespace {

constexpr std::int64_t kMaxRows = 65535;  // of a grid

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

// By the ATen operations of the formula.
at::Tensor reference(const at::Tensor& q_bshd, const at::Tensor& k_bthd, const at::Tensor& v_bthd,
                     const HeadComposition& composition) {
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

// pre (normalised) and post are [B, heads, T] fp32, contiguous; from and until are visible_from()'s
// and visible_until()'s.
struct FusedComposedAttention : torch::autograd::Function<FusedComposedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& pre, const at::Tensor& post,
                            const at::Tensor& from, const at::Tensor& until,
                            const cuda::ComposedShape& shape) {
    const auto logsumexp = at::empty(pre.sizes(), pre.options());
    auto y = at::empty(q.sizes(), q.options());
    cuda::composed_attention_forward(shape, inputs({q, k, v, pre, post, from, until}),
                                     mutable_data(y), mutable_fp32_data(logsumexp), dtype_of(q),
                                     current_stream(q));
    context->save_for_backward({q, k, v, pre, post, from, until, logsumexp});
    context->saved_data["shape"] = in_capsule(shape);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &pre = saved[3], &post = saved[4];
    const auto d_y = readable_heads(upstream[0]);
    const auto like = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
    const auto dq = like(q), dk = like(k), dv = like(v), d_pre = like(pre), d_post = like(post);
    cuda::composed_attention_backward(
        from_capsule<cuda::ComposedShape>(context->saved_data["shape"]), inputs(saved),
        head_vectors(d_y), const_fp32_data(saved[7]),
        {.q = mutable_data(dq),
         .k = mutable_data(dk),
         .v = mutable_data(dv),
         .pre = mutable_fp32_data(d_pre),
         .post = mutable_fp32_data(d_post)},
        dtype_of(q), current_stream(q));
    const at::Tensor none;
    return {dq, dk, dv, d_pre, d_post, none, none, none};
  }

 private:
  // `saved`: q, k, v, pre, post, visible_from() and visible_until().
  static cuda::ComposedInputs inputs(const variable_list& saved) {
    return {.q = head_vectors(saved[0]),
            .k = head_vectors(saved[1]),
            .v = head_vectors(saved[2]),
            .pre = const_fp32_data(saved[3]),
            .post = const_fp32_data(saved[4]),
            .visible_from = saved[5].const_data_ptr<int>(),
            .visible_until = saved[6].const_data_ptr<int>()};
  }
};

bool kernels_support(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const HeadComposition& composition) {
  const auto like_q = [&](const at::Tensor& x) {
    return x.scalar_type() == q.scalar_type() && x.sizes() == q.sizes();
  };
  return use_kernels(q) && q.scalar_type() != at::kFloat && like_q(k) && like_q(v) &&
         (q.size(3) == 64 || q.size(3) == 128) && q.numel() > 0 &&
         q.numel() / q.size(3) < std::numeric_limits<int>::max() && q.size(0) <= kMaxRows &&
         composition.window <= cuda::kMaxComposedWindow && composition.scale > 0;
}

}  // namespace

at::Tensor composed_attention(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                              const at::Tensor& v_bthd, const HeadComposition& composition) {
  if (!kernels_support(q_bshd, k_bthd, v_bthd, composition))
    return reference(q_bshd, k_bthd, v_bthd, composition);
  const auto& [pre, post, scale, window, documents] = composition;
  const auto by_head = [](const at::Tensor& x) { return x.transpose(1, 2).contiguous(); };
  const cuda::ComposedShape shape{.batch = static_cast<int>(q_bshd.size(0)),
                                  .seq_len = static_cast<int>(q_bshd.size(1)),
                                  .heads = static_cast<int>(q_bshd.size(2)),
                                  .head_dim = static_cast<int>(q_bshd.size(3)),
                                  .window = static_cast<int>(window),
                                  .scale = static_cast<float>(scale)};
  return FusedComposedAttention::apply(
      readable_heads(q_bshd), readable_heads(k_bthd), readable_heads(v_bthd),
      by_head(normalized(pre.to(at::kFloat))), by_head(post.to(at::kFloat)),
      visible_from(k_bthd, documents, window),
      visible_until(k_bthd, documents, window).contiguous(), shape);
}

}  // namespace tg
