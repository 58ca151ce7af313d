#include "ops/norm/mix_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

#include "ops/norm/mix_norm_kernel.h"
#include "ops/norm/norm_outputs.h"
#include "ops/operands.h"

namespace tg {

namespace {

constexpr std::size_t kMaxTerms = cuda::kMaxMixTerms;

// What a call knows of a term besides its tensors.
struct Term {
  bool weighted = false;
  GradientSumPtr shared{};
  SharedColumn shared_weight{};
  Fp8Scaling gradient_scaling{};
};
struct Call {
  std::vector<Term> terms{};
  NormOptions norm{};
  bool dy_is_scaled = false;
};

// The terms' tensors, then the weights that are defined.
struct Inputs {
  std::array<at::Tensor, kMaxTerms> tensors, weights;
};
Inputs spread(at::TensorList list, const Call& call) {
  Inputs in;
  const auto count = call.terms.size();
  for (std::size_t t = 0, next = count; t < count; ++t) {
    in.tensors[t] = list[t];
    if (call.terms[t].weighted) in.weights[t] = list[next++];
  }
  return in;
}

// Elements between the numbers of successive rows.
std::int64_t row_stride(const at::Tensor& weight) {
  return weight.dim() == 0 ? 0 : weight.stride(-2);
}

cuda::MixNormTerms pointers(const Inputs& in, std::size_t count) {
  cuda::MixNormTerms terms{.count = static_cast<int>(count)};
  for (std::size_t t = 0; t < count; ++t) {
    terms.terms[t] = const_data(in.tensors[t]);
    const auto& weight = in.weights[t];
    if (weight.defined())
      terms.coefficients[t] = {const_data(weight), row_stride(weight),
                               weight.scalar_type() == at::kFloat};
  }
  return terms;
}

// The gradients of a backward pass, and the kernel's arguments that write them.
struct Gradients {
  std::array<at::Tensor, kMaxTerms> tensors, weights;
  cuda::MixNormGradients arguments{};
  bool scalars = false;

  // Directs the gradient of term t to a tensor like `like`, or to the sum that it shares.
  void add_tensor(std::size_t t, const Term& term, const at::Tensor& like) {
    if (term.shared) {
      arguments.adds[t] = term.shared->begun();
      arguments.dterms[t] = mutable_data(term.shared->whole());
      return;
    }
    tensors[t] = at::empty_like(like);
    arguments.dterms[t] = mutable_data(tensors[t]);
    if (!term.gradient_scaling.defined()) return;
    arguments.copied = static_cast<int>(t);
    arguments.copy = cached_fp8_copy(tensors[t], term.gradient_scaling);
  }
  // Directs the gradient of its weight to a tensor, to a shared column or to sums over all rows.
  void add_weight(std::size_t t, const Term& term, const at::Tensor& weight) {
    if (weight.dim() == 0) {
      scalars = true;
      return;
    }
    const auto& [sum, column] = term.shared_weight;
    const auto gradient =
        sum ? sum->zeroed().narrow(-1, column, 1) : at::empty(weight.sizes(), weight.options());
    if (!sum) weights[t] = gradient;
    arguments.by_row[t] = {mutable_data(gradient), row_stride(gradient), sum != nullptr};
  }
};

struct FusedMixNorm : torch::autograd::Function<FusedMixNorm> {
  // Returns x' and, with `outputs`, the tensor of y.
  static variable_list forward(AutogradContext* context, at::TensorList list, Call call,
                               const std::optional<NormOutputs>& outputs) {
    const auto count = call.terms.size();
    const auto in = spread(list, call);
    const auto& like = in.tensors[0];
    const auto sum = at::empty_like(like);
    const auto y = outputs && outputs->writes_y() ? at::empty_like(like) : at::Tensor();
    cuda::MixNormed normed{.wanted = outputs.has_value(), .y = mutable_data(y)};
    if (outputs) {
      normed.row_scale = mutable_fp32_data(outputs->row_scale);
      normed.copy = fp8_copy(outputs->rounded, call.norm.rounding);
      call.dy_is_scaled = outputs->form == NormedForm::deferred_scale;
    }
    cuda::mix_norm_forward(pointers(in, count),
                           residual_norm_rows(like, call.norm.scale, call.norm.channels),
                           mutable_data(sum), normed, current_stream(like));
    // Backward reads a term only for the gradient of its weight.
    variable_list saved(list.begin(), list.end());
    for (std::size_t t = 0; t < count; ++t)
      if (!in.weights[t].defined() || !in.weights[t].requires_grad()) saved[t].reset();
    saved.push_back(outputs ? sum : at::Tensor());
    context->save_for_backward(saved);
    context->saved_data["call"] = in_capsule(call);
    context->set_materialize_grads(false);
    if (!outputs) return {sum};
    return {sum, y.defined() ? y : sum.variable_data()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto count = call.terms.size();
    const auto saved = context->get_saved_variables();
    const auto in = spread(saved, call);
    const auto dsum = aligned_contiguous(upstream[0]),
               dy = upstream.size() > 1 ? aligned_contiguous(upstream[1]) : at::Tensor();
    const auto inputs = saved.size() - 1;
    variable_list result(inputs + 2);
    if (!dsum.defined() && !dy.defined()) return result;
    const auto& like = dsum.defined() ? dsum : dy;

    Gradients d;
    std::array<std::size_t, kMaxTerms> weight_input{};
    std::array<bool, kMaxTerms> needs_weight{};
    for (std::size_t t = 0, next = count; t < count; ++t) {
      if (context->needs_input_grad(t)) d.add_tensor(t, call.terms[t], like);
      if (!call.terms[t].weighted) continue;
      weight_input[t] = next++;
      needs_weight[t] = context->needs_input_grad(weight_input[t]);
      if (needs_weight[t]) d.add_weight(t, call.terms[t], in.weights[t]);
    }
    auto& arguments = d.arguments;
    arguments.sum = const_data(saved.back());
    arguments.dsum = const_data(dsum);
    arguments.dy = const_data(dy);
    arguments.dy_is_scaled = call.dy_is_scaled;
    const auto rows = residual_norm_rows(like, call.norm.scale, call.norm.channels);
    const auto terms = pointers(in, count);
    const int blocks = cuda::mix_norm_blocks(terms, rows, arguments.copy.values != nullptr);
    const auto fp32 = like.options().dtype(at::kFloat);
    const auto columns = static_cast<std::int64_t>(count);
    const auto partials = d.scalars ? at::empty({blocks, columns}, fp32) : at::Tensor(),
               sums = d.scalars ? at::empty({columns}, fp32) : at::Tensor();
    cuda::mix_norm_backward(terms, rows, arguments, blocks, mutable_fp32_data(partials),
                            mutable_fp32_data(sums), current_stream(like));
    for (std::size_t t = 0; t < count; ++t) {
      result[t] = d.tensors[t];
      if (!needs_weight[t]) continue;
      const auto& weight = in.weights[t];
      result[weight_input[t]] = weight.dim() == 0
                                    ? sums[static_cast<std::int64_t>(t)].to(weight.scalar_type())
                                    : d.weights[t];
    }
    return result;
  }
};

variable_list fused(const MixTerms& terms, const NormOptions& norm,
                    const std::optional<NormOutputs>& outputs) {
  Call call{.norm = norm};
  std::vector<at::Tensor> list;
  for (const auto& term : terms) {
    call.terms.push_back(
        {term.weight.defined(), term.shared, term.weight.shared, term.gradient_scaling});
    list.push_back(aligned_contiguous(term.tensor));
  }
  for (const auto& term : terms)
    if (term.weight.defined()) list.push_back(term.weight.value);
  return FusedMixNorm::apply(at::TensorList(list), call, outputs);
}

// [], or [..., 1] whose rows have one stride.
bool is_supported_weight(const at::Tensor& weight, const at::Tensor& x) {
  if (weight.scalar_type() != at::kFloat && weight.scalar_type() != x.scalar_type()) return false;
  if (weight.dim() == 0) return true;
  if (weight.dim() != x.dim() || weight.dim() < 2 || weight.size(-1) != 1) return false;
  const auto last = weight.dim() - 2;
  for (std::int64_t i = 0; i <= last; ++i)
    if (weight.size(i) != x.size(i)) return false;
  for (std::int64_t i = 0; i < last; ++i)
    if (weight.size(i) > 1 && weight.stride(i) != weight.stride(i + 1) * weight.size(i + 1))
      return false;
  return true;
}

}  // namespace

bool mix_norm_supports(const MixTerms& terms) {
  if (terms.size() < 2 || terms.size() > kMaxTerms || !terms[0].tensor.defined()) return false;
  const auto& x = terms[0].tensor;
  const auto scaled = [](const MixTerm& term) { return term.gradient_scaling.defined(); };
  return choose_residual_norm(x) == Kernel::cuda && std::ranges::count_if(terms, scaled) <= 1 &&
         std::ranges::all_of(terms, [&](const MixTerm& term) {
           return term.tensor.defined() && term.tensor.scalar_type() == x.scalar_type() &&
                  term.tensor.sizes() == x.sizes() && !term.blend.defined() &&
                  !term.weight.gradient.defined() &&
                  (!term.weight.defined() || is_supported_weight(term.weight.value, x));
         });
}

ResidualNorm mix_norm(const MixTerms& terms, const NormOptions& norm) {
  const auto outputs = norm_outputs(terms[0].tensor, norm);
  const auto out = fused(terms, norm, outputs);
  return {.sum = {}, .x = out[0], .y = outputs.input(out[1]), .x0 = {}};
}

at::Tensor mix_sum(const MixTerms& terms) {
  return fused(terms, {}, std::nullopt)[0];
}

}  // namespace tg
