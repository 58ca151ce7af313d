#include "ops/norm/mix_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

#include "ops/norm/mix_norm_kernel.h"
#include "ops/norm/norm_outputs.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Indices of apply()'s tensors: the terms, then their weights from kWeights on.
enum : std::size_t { kWeights = cuda::kMaxMixTerms, kTensors = 2 * kWeights };
using Tensors = std::array<at::Tensor, kTensors>;

// What a call knows of a term besides its tensors.
struct Term {
  GradientSumPtr shared{};
  SharedColumn shared_weight{};
  Fp8Scaling gradient_scaling{};
};
struct Call {
  GivenInputs<kTensors> inputs{};
  std::vector<Term> terms{};
  NormOptions norm{};
};

// Elements between the numbers of successive rows.
std::int64_t row_stride(const at::Tensor& weight) {
  return weight.dim() == 0 ? 0 : weight.stride(-2);
}

cuda::MixNormTerms pointers(const Tensors& in, std::size_t count) {
  cuda::MixNormTerms terms{.count = static_cast<int>(count)};
  for (std::size_t t = 0; t < count; ++t) {
    terms.terms[t] = const_data(in[t]);
    const auto& weight = in[kWeights + t];
    if (weight.defined())
      terms.coefficients[t] = {const_data(weight), row_stride(weight),
                               weight.scalar_type() == at::kFloat};
  }
  return terms;
}

// The gradients of a backward pass, and the kernel's arguments that write them.
struct Gradients {
  Tensors tensors;
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
    if (!sum) tensors[kWeights + t] = gradient;
    arguments.by_row[t] = {mutable_data(gradient), row_stride(gradient), sum != nullptr};
  }
};

struct FusedMixNorm : torch::autograd::Function<FusedMixNorm> {
  // Returns x' and, with `outputs`, the tensor of y.
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call,
                               const std::optional<NormOutputs>& outputs) {
    const auto in = call.inputs.spread(defined);
    const auto sum = at::empty_like(in[0]);
    const auto normed = outputs ? outputs->pointers() : cuda::NormedRows{};
    cuda::mix_norm_forward(pointers(in, call.terms.size()), norm_rows(in[0], call.norm),
                           mutable_data(sum), outputs ? &normed : nullptr, current_stream(in[0]));
    // Backward reads a term only for the gradient of its weight.
    variable_list saved(in.begin(), in.end());
    for (std::size_t t = 0; t < kWeights; ++t) {
      const auto& weight = in[kWeights + t];
      if (!weight.defined() || !weight.requires_grad()) saved[t].reset();
    }
    saved.push_back(outputs ? sum : at::Tensor());
    context->save_for_backward(saved);
    context->saved_data["call"] = in_capsule(call);
    context->set_materialize_grads(false);
    if (!outputs) return {sum};
    return {sum, outputs->y.defined() ? outputs->y : sum.variable_data()};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto count = call.terms.size();
    const auto dsum = aligned_contiguous(upstream[0]),
               dy = upstream.size() > 1 ? aligned_contiguous(upstream[1]) : at::Tensor();
    Gradients d;
    if (!dsum.defined() && !dy.defined())
      return call.inputs.gradients(*context, d.tensors, /*others=*/2);
    const auto& like = dsum.defined() ? dsum : dy;
    const auto saved = context->get_saved_variables();
    Tensors in;
    std::copy_n(saved.begin(), kTensors, in.begin());

    const auto needs_grad = call.inputs.needs_grad(*context);
    for (std::size_t t = 0; t < count; ++t) {
      if (needs_grad[t]) d.add_tensor(t, call.terms[t], like);
      if (needs_grad[kWeights + t]) d.add_weight(t, call.terms[t], in[kWeights + t]);
    }
    auto& arguments = d.arguments;
    arguments.sum = const_data(saved.back());
    arguments.dsum = const_data(dsum);
    arguments.dy = const_data(dy);
    arguments.dy_is_scaled = call.norm.form == NormedForm::deferred_scale;
    const auto sums =
        d.scalars ? at::empty({static_cast<std::int64_t>(count)}, like.options().dtype(at::kFloat))
                  : at::Tensor();
    cuda::mix_norm_backward(pointers(in, count), norm_rows(like, call.norm), arguments,
                            mutable_fp32_data(sums), workspace_like(like), current_stream(like));
    for (std::size_t t = 0; t < count; ++t) {
      const auto& weight = in[kWeights + t];
      if (needs_grad[kWeights + t] && weight.dim() == 0)
        d.tensors[kWeights + t] = sums[static_cast<std::int64_t>(t)].to(weight.scalar_type());
    }
    return call.inputs.gradients(*context, d.tensors, /*others=*/2);
  }
};

// Without `outputs`: the sum alone.
variable_list fused(const MixTerms& terms, const std::optional<NormOutputs>& outputs) {
  Call call{.norm = outputs ? outputs->norm : NormOptions{}};
  Tensors in;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const auto& term = terms[t];
    call.terms.push_back({term.shared, term.weight.shared, term.gradient_scaling});
    in[t] = aligned_contiguous(term.tensor);
    in[kWeights + t] = term.weight.value;
  }
  call.inputs = GivenInputs(in);
  return FusedMixNorm::apply(at::TensorList(defined_of(in)), call, outputs);
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
  if (terms.size() < 2 || terms.size() > cuda::kMaxMixTerms || !terms[0].tensor.defined())
    return false;
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
  const auto out = fused(terms, outputs);
  return {.sum = {}, .x = out[0], .y = outputs.input(out[1]), .x0 = {}};
}

at::Tensor mix_sum(const MixTerms& terms) {
  return fused(terms, std::nullopt)[0];
}

}  // namespace tg
