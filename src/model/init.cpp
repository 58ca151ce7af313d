#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>

namespace tg {

namespace {

// Draws in fp32 on the CPU, as Python does before it moves the model.
class Draw {
 public:
  explicit Draw(std::int64_t seed)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))) {}

  // Each result is valid until the next draw.
  at::Tensor normal(at::IntArrayRef shape, double std = 1.0) {
    return buffer(shape).normal_(0.0, std, generator_);
  }
  // torch.nn.Linear's default for `shape` of a layer with this many inputs: Kaiming uniform with
  // a = √5, that is ±1/√inputs.
  at::Tensor linear(at::IntArrayRef shape, std::int64_t inputs) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
    return buffer(shape).uniform_(-bound, bound, generator_);
  }
  // torch.nn.init.orthogonal_: QR of a normal draw, taken the taller way, with R's diagonal
  // positive.
  at::Tensor orthogonal(std::int64_t rows, std::int64_t columns) {
    auto draw = normal({rows, columns});
    if (rows < columns) draw = draw.t();
    auto [q, r] = at::linalg_qr(draw);
    q = q * r.diagonal().sign();
    return rows < columns ? q.t() : q;
  }

 private:
  // The same memory for all: of what a process touches first, the system clears each page.
  at::Tensor buffer(at::IntArrayRef shape) {
    const auto count = c10::multiply_integers(shape);
    if (!drawn_.defined() || drawn_.numel() < count) drawn_ = at::empty({count}, at::kFloat);
    return drawn_.narrow(0, 0, count).view(shape);
  }

  at::Generator generator_;
  at::Tensor drawn_;
};

// The order of draws, module by module: what its constructor draws, and what the script then
// overwrites that with. Of the draws only those stay that the row asks for. Names are those of the
// scripts' modules; an absent parameter draws nothing.
class Initializer {
 public:
  Initializer(ParameterTable& table, const ModelConfig& config, std::int64_t seed)
      : table_(table), config_(config), draw_(seed) {}

  // What is drawn is overwritten by the draws.
  void constants() {
    for (const auto& row : table_.rows()) {
      for (const auto& [name, value, initial, quantization] : row.parts) {
        value.fill_(initial.law == Law::constant ? initial.number : 0.0);
        if (initial.law == Law::first_row) value.select(0, 0).fill_(initial.number);
      }
    }
  }

  void record() {
    embedding("tok_emb.weight");
    embedding("bigram.embed.weight");
    linear("bigram.proj.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      gate(of_block(i, "attn.attn_gate"));
      gate(of_block(i, "dtg_gate"));
    }
    embedding("ve_shared.embed.weight");
    overwrite("ve_shared.embed.weight");
    linear("ve_shared.proj.weight");
    linear("lm_head.weight");
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k)
      linear(fmt::format("mtp_heads.{}.weight", k));
    overwrite("tok_emb.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      for (const char* name :
           {"attn.c_q.weight", "attn.c_k.weight", "attn.c_v.weight", "mlp.fc.weight"}) {
        overwrite(of_block(i, name));
      }
    }
    overwrite("bigram.proj.weight");
    overwrite("ve_shared.proj.weight");
  }

  // After the script's own draws those of what it does not have.
  void speedrun() {
    embedding("tok_emb.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      for (const char* name : {"attn.c_q.weight", "attn.c_k.weight", "attn.c_v.weight",
                               "attn.proj.weight", "mlp.fc.weight", "mlp.proj.weight"}) {
        linear(of_block(i, name));
      }
    }
    overwrite("tok_emb.weight");
    overwrite("ve_shared.embed.weight");
    overwrite("bigram.proj.weight");
    overwrite("ve_shared.proj.weight");
  }

 private:
  // The constructors of torch.nn.Embedding and torch.nn.Linear.
  void embedding(const std::string& name) {
    if (const auto* const part = find(name)) keep_default(*part, draw_.normal(part->value.sizes()));
  }
  void linear(const std::string& name) {
    const auto* const part = find(name);
    if (part == nullptr) return;
    const auto shape = part->value.sizes();
    keep_default(*part, draw_.linear(shape, shape.back()));
  }
  // A Linear with a bias.
  void gate(const std::string& module) {
    const auto* const weight = find(module + ".weight");
    if (weight == nullptr) return;
    const auto shape = weight->value.sizes();
    linear(weight->name);
    keep_default(*find(module + ".bias"), draw_.linear({shape[0]}, shape[1]));
  }
  static void keep_default(const ParameterPart& part, const at::Tensor& drawn) {
    if (part.initial.law == Law::torch_default) part.value.copy_(drawn);
  }

  void overwrite(const std::string& name) {
    const auto* const part = find(name);
    if (part == nullptr) return;
    const auto& [law, number] = part->initial;
    const auto shape = part->value.sizes();
    if (law == Law::normal) part->value.copy_(draw_.normal(shape, number));
    if (law == Law::orthogonal) part->value.copy_(draw_.orthogonal(shape[0], shape[1]));
  }

  const ParameterPart* find(const std::string& name) const {
    for (const auto& row : table_.rows()) {
      for (const auto& part : row.parts) {
        if (part.name == name) return &part;
      }
    }
    return nullptr;
  }
  static std::string of_block(std::int64_t i, const char* name) {
    return fmt::format("blocks.{}.{}", i, name);
  }

  ParameterTable& table_;
  const ModelConfig& config_;
  Draw draw_;
};

}  // namespace

void initialize(ParameterTable& table, const ModelConfig& config, std::int64_t seed) {
  const at::NoGradGuard no_grad;
  Initializer initializer(table, config, seed);
  initializer.constants();
  if (config.value_residual == ValueResidual::blend) {
    initializer.speedrun();
  } else {
    initializer.record();
  }
}

}  // namespace tg
