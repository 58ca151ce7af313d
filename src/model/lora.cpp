#include "model/lora.h"

#include <fmt/format.h>

#include <cmath>

#include "model/gpt.h"

namespace tg {

namespace {

// The reference implementation's lists, by kind.
constexpr const char* kLists[] = {"lm_head_lora", "q_loras",   "k_loras",
                                  "v_loras",      "mlp_loras", "o_loras"};

// In the order of draws.
constexpr LoraKind kCallKinds[] = {LoraKind::queries, LoraKind::values, LoraKind::keys,
                                   LoraKind::mlp, LoraKind::out};

std::string name_of(LoraKind kind, std::size_t call) {
  const auto* list = kLists[static_cast<std::size_t>(kind)];
  return kind == LoraKind::head ? list : fmt::format("{}.{}", list, call);
}

std::int64_t width_of(LoraKind kind, const ModelShape& shape) {
  switch (kind) {
    case LoraKind::head:
      return shape.vocab;
    case LoraKind::queries:
      return shape.heads * shape.qk_head_dim;
    case LoraKind::keys:
      return shape.kv_heads * shape.qk_head_dim;
    case LoraKind::values:
      return shape.kv_heads * shape.head_dim;
    case LoraKind::mlp:
    case LoraKind::out:
      return shape.dim;
  }
  return 0;
}

LoraGroup group_of(const std::vector<LoraKind>& kinds) {
  LoraGroup group;
  for (const auto kind : kinds) group.adapters.push_back({kind, {}});
  return group;
}

}  // namespace

at::Tensor FlatPart::view(const at::Tensor& flat) const {
  return flat.narrow(0, offset, c10::multiply_integers(shape)).view(shape);
}

LoraAdapters::LoraAdapters(const Gpt& model, const LoraOptions& options, std::int64_t rows,
                           at::Generator& generator)
    : rows_(rows),
      rank_(options.rank),
      scale_(options.alpha / static_cast<double>(options.rank)),
      head_(group_of({LoraKind::head})) {
  std::vector<LoraKind> attention{LoraKind::queries, LoraKind::values};
  if (options.keys) attention.push_back(LoraKind::keys);
  if (options.out) attention.push_back(LoraKind::out);
  const std::vector<LoraKind> mlp(options.mlp ? 1 : 0, LoraKind::mlp);
  calls_.resize(model.pass().calls.size(), {group_of(attention), group_of(mlp)});

  std::int64_t count = 0;
  const auto place = [&](std::vector<std::int64_t> shape) {
    FlatPart part{count, std::move(shape)};
    count += c10::multiply_integers(part.shape);
    return part;
  };
  const auto for_each_group = [&](const auto& call) {
    call(head_, 0);
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (auto* group : {&calls_[i].attention, &calls_[i].mlp}) call(*group, i);
  };
  const auto& shape = model.plan().shape;
  for_each_group([&](LoraGroup& group, std::size_t) {
    group.a = place({rows, std::ssize(group.adapters) * rank_, shape.dim});
  });
  a_count_ = count;
  for_each_group([&](LoraGroup& group, std::size_t) {
    for (auto& adapter : group.adapters)
      adapter.b = place({rows, width_of(adapter.kind, shape), rank_});
  });

  parameters_ = at::zeros({count}, model.parameter_options());
  for_each_group([&](const LoraGroup& group, std::size_t call) {
    const auto a = group.a.view(parameters_);
    for (std::int64_t i = 0; i < std::ssize(group.adapters); ++i) {
      const auto& adapter = group.adapters[static_cast<std::size_t>(i)];
      const auto name = name_of(adapter.kind, call);
      names_[name + ".A"] = a.narrow(1, i * rank_, rank_);
      names_[name + ".B"] = adapter.b.view(parameters_);
    }
  });
  draw_a(generator);
  parameters_ = parameters_.detach().set_requires_grad(true);
  parameters_.mutable_grad() = at::zeros_like(parameters_.detach());
}

void LoraAdapters::draw_a(at::Generator& generator) {
  const at::NoGradGuard no_grad;
  const auto draw = [&](const std::string& name) {
    const auto found = names_.find(name + ".A");
    if (found == names_.end()) return;
    const auto& a = found->second;
    const double bound = 1 / std::sqrt(static_cast<double>(a.size(-1)));
    a.copy_(at::empty(a.sizes(), at::kFloat).uniform_(-bound, bound, generator));
  };
  draw(name_of(LoraKind::head, 0));
  for (const auto kind : kCallKinds)
    for (std::size_t call = 0; call < calls_.size(); ++call) draw(name_of(kind, call));
}

void LoraAdapters::zero_b() {
  all_b().zero_();
}

at::Tensor LoraAdapters::all_a() const {
  return parameters_.detach().narrow(0, 0, a_count_);
}

at::Tensor LoraAdapters::all_b() const {
  return parameters_.detach().narrow(0, a_count_, parameters_.numel() - a_count_);
}

}  // namespace tg
