#include "model/init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cmath>

#include "config/derived.h"

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

// How a parameter begins.
enum class Law {
  constant,       // `number` everywhere
  torch_default,  // as torch.nn.Embedding and torch.nn.Linear begin
  normal,         // standard deviation `number`
  orthogonal,     // each matrix
};
struct Start {
  Law law;
  double number = 0;
};

class Initializer {
 public:
  Initializer(ParameterTable& table, const ModelConfig& config, std::int64_t seed,
              double tied_embed_init_std)
      : table_(table),
        config_(config),
        tied_embed_init_std_(tied_embed_init_std),
        blend_(config.value_residual == ValueResidual::blend),
        draw_(seed) {}

  // What is drawn is overwritten by the draws.
  void constants() {
    for (const auto& row : table_.rows()) {
      const auto start = start_of(row.name, row.kind);
      const auto value = row.value.detach();
      value.fill_(start.law == Law::constant ? start.number : 0.0);
      if (ends_with(row.name, "resid_mix")) value.select(0, 1).zero_();  // x0's share
    }
  }

  // The record's script: its modules as they are constructed, then what it overwrites.
  void record() {
    construct("tok_emb.weight");
    construct("bigram.embed.weight");
    construct("bigram.proj.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      construct_gate(fmt::format("blocks.{}.attn.attn_gate", i));
      construct_gate(fmt::format("blocks.{}.dtg_gate", i));
    }
    construct("ve_shared.embed.weight");
    begin("ve_shared.embed.weight");
    construct("ve_shared.proj.weight");
    construct("lm_head.weight");
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k)
      construct(fmt::format("mtp_heads.{}.weight", k));
    begin("tok_emb.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      for (const auto& matrix : {query(i), key(i), value(i), up(i)})
        matrix.copy_(draw_.orthogonal(matrix.size(0), matrix.size(1)));
    }
    begin("bigram.proj.weight");
    begin("ve_shared.proj.weight");
  }

  // The speedrun's script, which zeroes output projections once they are constructed; after its own
  // draws those of what it does not have.
  void speedrun() {
    construct("tok_emb.weight");
    for (std::int64_t i = 0; i < config_.num_layers; ++i) {
      for (const auto& matrix : {query(i), key(i), value(i)})
        matrix.copy_(draw_.linear(matrix.sizes()));
      draw_.linear(query(i).sizes());  // the output projection
      up(i).copy_(draw_.linear(up(i).sizes()));
      draw_.linear({config_.model_dim, up(i).size(0)});  // the projection down
    }
    begin("tok_emb.weight");
    begin("ve_shared.embed.weight");
    begin("bigram.proj.weight");
    begin("ve_shared.proj.weight");
  }

 private:
  // Every parameter's initial value. Of a bank: of the matrices that are drawn, queries, keys,
  // values and up; output projections and down are zero.
  Start start_of(const std::string& name, ParameterKind kind) const {
    const Start zero{Law::constant, 0};
    switch (kind) {
      case ParameterKind::bank:
        return {blend_ ? Law::torch_default : Law::orthogonal};
      case ParameterKind::table:
        if (name == "bigram.embed.weight") return zero;
        if (name == "ve_shared.embed.weight") return {Law::normal, 0.01};
        if (config_.tie_embeddings) return {Law::normal, tied_embed_init_std_};
        return {Law::torch_default};
      case ParameterKind::projection: {
        const auto sizes = table_[name].sizes();
        return is_drawn_projection(sizes[0], sizes[1]) ? Start{Law::orthogonal} : zero;
      }
      case ParameterKind::head:
      case ParameterKind::mtp_head:
        return zero;
      case ParameterKind::scalar:
        return {Law::constant, constant_of(name)};
    }
    return zero;
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

  // The draw of a module's constructor, kept where nothing overwrites it. Absent parameters draw
  // nothing, here and below.
  void construct(const std::string& name) {
    const auto* const row = find(name);
    if (row == nullptr) return;
    const auto shape = row->value.sizes();
    const bool embedding = row->kind == ParameterKind::table;
    const auto drawn = embedding ? draw_.normal(shape) : draw_.linear(shape);
    if (start_of(name, row->kind).law == Law::torch_default) row->value.detach().copy_(drawn);
  }
  // Weight and bias, both overwritten by constants.
  void construct_gate(const std::string& name) {
    const auto* const weight = find(name + ".weight");
    if (weight == nullptr) return;
    draw_.linear(weight->value.sizes());
    draw_.uniform({weight->value.size(0)}, 1.0 / std::sqrt(static_cast<double>(config_.model_dim)));
  }
  // What overwrites it.
  void begin(const std::string& name) {
    const auto* const row = find(name);
    if (row == nullptr) return;
    const auto start = start_of(name, row->kind);
    const auto shape = row->value.sizes();
    if (start.law == Law::normal) row->value.detach().copy_(draw_.normal(shape, start.number));
    if (start.law == Law::orthogonal)
      row->value.detach().copy_(draw_.orthogonal(shape[0], shape[1]));
  }

  const Parameter* find(const std::string& name) const {
    for (const auto& row : table_.rows()) {
      if (row.name == name) return &row;
    }
    return nullptr;
  }
  at::Tensor matrix(const char* bank, std::int64_t index) const {
    return table_[bank].detach().select(0, index);
  }
  at::Tensor query(std::int64_t layer) const { return matrix("qo_bank", layer); }
  at::Tensor key(std::int64_t layer) const { return matrix("kv_bank", layer); }
  at::Tensor value(std::int64_t layer) const {
    return matrix("kv_bank", config_.num_layers + layer);
  }
  at::Tensor up(std::int64_t layer) const { return matrix("mlp_up_bank", layer); }

  static bool ends_with(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() &&
           text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
  }

  ParameterTable& table_;
  const ModelConfig& config_;
  const double tied_embed_init_std_;
  const bool blend_;
  Draw draw_;
};

}  // namespace

void initialize(ParameterTable& table, const ModelConfig& config, std::int64_t seed,
                double tied_embed_init_std) {
  const at::NoGradGuard no_grad;
  Initializer initializer(table, config, seed, tied_embed_init_std);
  initializer.constants();
  if (config.value_residual == ValueResidual::blend) {
    initializer.speedrun();
  } else {
    initializer.record();
  }
}

}  // namespace tg
