#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace tg {

namespace {

// Draws in fp32 on the CPU, as Python does before it moves the model.
class Draw {
 public:
  explicit Draw(std::int64_t seed)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))) {}

  at::Tensor normal(at::IntArrayRef shape, double std = 1.0) {
    return at::empty(shape, at::kFloat).normal_(0.0, std, generator_);
  }
  at::Tensor uniform(at::IntArrayRef shape, double bound) {
    return at::empty(shape, at::kFloat).uniform_(-bound, bound, generator_);
  }
  // torch.nn.Linear's default: Kaiming uniform with a = √5, that is ±1/√columns.
  at::Tensor linear(at::IntArrayRef shape) {
    return uniform(shape, 1.0 / std::sqrt(static_cast<double>(shape.back())));
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
  at::Generator generator_;
};

class Initializer {
 public:
  Initializer(ParameterTable& table, const ModelConfig& config, std::int64_t seed)
      : table_(table), config_(config), draw_(seed) {}

  // Gains, scales, gates and mixes: constants, the same in both recipes but for QK_GAIN_INIT's
  // absence.
  void constants() {
    for (const auto& row : table_.rows()) {
      if (row.kind != ParameterKind::scalar) {
        row.value.detach().zero_();
        continue;
      }
      row.value.detach().fill_(constant_of(row.name));
      if (ends_with(row.name, "resid_mix")) row.value.detach().select(0, 1).zero_();  // x0's share
    }
  }

  void record(double tied_embed_init_std) {
    set("tok_emb.weight", draw_.normal(shape("tok_emb.weight")));
    if (config_.bigram_vocab_size > 0) {
      draw_.normal(shape("bigram.embed.weight"));  // overwritten by zeros
      discard_linear("bigram.proj.weight");
    }
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      if (config_.gated_attention) discard_gate(config_.num_heads);
      if (config_.dtg_enabled) discard_gate(1);
    }
    if (has("ve_shared.embed.weight")) {
      draw_.normal(shape("ve_shared.embed.weight"));  // torch's default, overwritten by the next
      set("ve_shared.embed.weight", draw_.normal(shape("ve_shared.embed.weight"), 0.01));
      discard_linear("ve_shared.proj.weight");
    }
    if (!config_.tie_embeddings) discard_linear("lm_head.weight");
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) discard_linear("mtp_heads.0.weight");
    if (config_.tie_embeddings) {
      set("tok_emb.weight", draw_.normal(shape("tok_emb.weight"), tied_embed_init_std));
    }
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      for (const auto& [bank, index] : drawn_matrices(i)) {
        const auto matrix = table_[bank].detach().select(0, index);
        matrix.copy_(draw_.orthogonal(matrix.size(0), matrix.size(1)));
      }
    }
    orthogonal_projection("bigram.proj.weight");
    orthogonal_projection("ve_shared.proj.weight");
  }

  void speedrun() {
    set("tok_emb.weight", draw_.normal(shape("tok_emb.weight")));
    const auto layers = config_.num_layers;
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto matrices = drawn_matrices(i);
      const auto linear = [&](const std::string& bank, std::int64_t index, bool keep) {
        const auto matrix = table_[bank].detach().select(0, index);
        const auto drawn = draw_.linear(matrix.sizes());
        if (keep) matrix.copy_(drawn);
      };
      // c_q, c_k, c_v, c_proj, c_fc, c_proj; both c_proj are zero.
      for (int m = 0; m < 3; ++m) linear(matrices[m].first, matrices[m].second, true);
      linear("qo_bank", layers + i, false);
      linear(matrices[3].first, matrices[3].second, true);
      linear("mlp_down_bank", i, false);
    }
  }

 private:
  using BankMatrix = std::pair<std::string, std::int64_t>;

  static bool ends_with(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() &&
           text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
  }

  double constant_of(const std::string& name) const {
    if (ends_with(name, "q_gain")) return config_.qk_gain_init;
    if (name == "bigram.scale") return 0.05;
    if (name == "ve_shared.scale") return 0.1;
    if (name == "smear.gate" || ends_with(name, "gate.weight")) return 0.0;
    if (ends_with(name, "attn_gate.bias")) return 4.0;
    if (ends_with(name, "dtg_gate.bias")) return 2.0;
    if (ends_with(name, "vr_lambda") || ends_with(name, "value_blend")) return 0.5;
    return 1.0;
  }

  std::vector<BankMatrix> drawn_matrices(std::int64_t layer) const {
    const auto layers = config_.num_layers;
    return {{"qo_bank", layer},
            {"kv_bank", layer},
            {"kv_bank", layers + layer},
            {"mlp_up_bank", layer}};
  }

  bool has(const std::string& name) const { return table_.find(name).defined(); }
  at::IntArrayRef shape(const std::string& name) const { return table_[name].sizes(); }
  void set(const std::string& name, const at::Tensor& value) { table_[name].detach().copy_(value); }

  void discard_linear(const std::string& name) {
    if (has(name)) draw_.linear(shape(name));
  }
  void discard_gate(std::int64_t outputs) {
    draw_.linear({outputs, config_.model_dim});
    draw_.uniform({outputs}, 1.0 / std::sqrt(static_cast<double>(config_.model_dim)));
  }
  void orthogonal_projection(const std::string& name) {
    constexpr std::int64_t kSmallest = 64;  // below it the script leaves zeros
    if (!has(name)) return;
    const auto sizes = shape(name);
    if (sizes[0] < kSmallest || sizes[1] < kSmallest) return;
    set(name, draw_.orthogonal(sizes[0], sizes[1]));
  }

  ParameterTable& table_;
  const ModelConfig& config_;
  Draw draw_;
};

}  // namespace

void initialize(ParameterTable& table, const ModelConfig& config, std::int64_t seed,
                double tied_embed_init_std) {
  const at::NoGradGuard no_grad;
  Initializer initializer(table, config, seed);
  initializer.constants();
  if (config.value_residual == ValueResidual::blend) {
    initializer.speedrun();
  } else {
    initializer.record(tied_embed_init_std);
  }
}

}  // namespace tg
