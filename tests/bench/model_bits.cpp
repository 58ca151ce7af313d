// Prints the results of random models to the last bit: two programs with equal outputs compute the
// same model. Checks refactorings, which must not change a number. Usage: model_bits [MODELS]
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "files/xxh3.h"
#include "model/gpt.h"
#include "model/init.h"
#include "model/parameters.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool coin() { return below(2) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(std::ssize(values))];
  }

 private:
  std::mt19937_64 engine_;
};

// Draws every switch; `wide`: sizes that are multiples of 16, as FP8 requires.
ModelConfig random_config(Dice& dice, bool wide) {
  ModelConfig c;
  c.vocab_size = wide ? 16 * dice.between(2, 5) : dice.between(20, 70);
  c.num_layers = dice.between(1, 8);
  c.num_kv_heads = dice.between(1, 3);
  c.num_heads = c.num_kv_heads * dice.between(1, 3);
  const auto head = wide ? 16 : 2 * dice.between(2, 7);
  c.model_dim = c.num_heads * head;
  c.mlp_mult = wide ? static_cast<double>(dice.between(1, 4)) : dice.one_of({1.3, 2.0, 3.0, 0.7});
  c.mlp_negative_slope = dice.one_of({0.0, 0.5, -0.25});
  c.tie_embeddings = dice.coin();
  c.rope_base = dice.one_of({100.0, 1e4});
  c.rope_dims = dice.coin() ? 0 : 2 * dice.between(2, head / 2);
  c.objective.logit_softcap = dice.one_of({8.0, 30.0});
  c.qk_gain_init = dice.one_of({0.0, 1.5, 5.0});
  c.bigram_vocab_size = dice.coin() ? 0 : dice.between(2, 40);
  c.bigram_dim = dice.one_of<std::int64_t>({c.model_dim, dice.between(1, 20), 72});
  c.xsa_last_n = dice.between(0, c.num_layers);
  c.ln_scale = dice.coin();
  c.ve_enabled = dice.coin();
  c.ve_dim = dice.one_of<std::int64_t>({c.num_kv_heads * head, dice.between(1, 20), 80});
  c.ve_layers.clear();
  for (std::int64_t i = 0; i < c.num_layers; ++i) {
    if (dice.coin())
      c.ve_layers.insert(c.ve_layers.begin() + dice.below(2) * std::ssize(c.ve_layers), i);
  }
  c.dtg_enabled = dice.below(3) == 0;
  c.gates.head_gate = dice.below(3) == 0 ? HeadGateKind::biased : HeadGateKind::off;
  c.value_residual = dice.one_of({ValueResidual::off, ValueResidual::on, ValueResidual::blend});
  c.mtp_num_heads = dice.coin() ? 0 : dice.between(1, 3);
  c.mtp_loss_weight = dice.one_of({0.0, 0.3});
  c.unet_skips = dice.coin();
  c.gates.smear = dice.coin() ? SmearKind::channels : SmearKind::off;
  c.layer_scales = dice.coin();
  c.resid_mix = dice.one_of({ResidMix::vector, ResidMix::scalar});
  return c;
}

class Digest {
 public:
  void add(const at::Tensor& x) {
    const auto whole = x.detach().contiguous();
    hash_.add(whole.const_data_ptr(), whole.nbytes());
  }
  std::string text() const { return fmt::format("{:016x}", hash_.value()); }

 private:
  Xxh3 hash_;
};

std::string digest_of(const ParameterTable& table) {
  Digest digest;
  for (const auto& row : table.rows()) digest.add(row.value);
  return digest.text();
}

ParameterTable weights(const ModelConfig& config, const test::ParameterOptions& options,
                       at::ScalarType storage, std::int64_t seed) {
  auto table = test::make_parameters(config, storage, at::kCPU, options);
  test::initialize(table, config, seed);
  return table;
}

// Numbers the groups as programs did before rows had their own learning rates.
std::ptrdiff_t number_of(const Update& update) {
  if (update == Update::tied_embedding) return number_of(Update::embedding);
  const Update all[] = {Update::muon, Update::embedding, Update::scalar, Update::head,
                        Update::none};
  const auto is_it = [&](const Update& other) { return update.differs_only_in_multipliers(other); };
  return std::ranges::find_if(all, is_it) - all;
}

void print_initial(std::int64_t seed) {
  Dice dice(static_cast<std::uint64_t>(seed));
  const auto config = random_config(dice, dice.coin());
  test::ParameterOptions options{.tied_embed_init_std = dice.one_of({0.005, 0.3}),
                                 .record_quirks = dice.coin()};
  if (dice.below(4) == 0) options.control_patterns = {"gate", "bank"};
  const auto table = weights(config, options, dice.one_of({at::kFloat, at::kBFloat16}), seed);
  fmt::print("initial {} {} {}\n", seed, table.rows().size(), digest_of(table));
  for (const auto& row : table.rows()) {
    fmt::print("  {} {} {} {}", row.name, fmt::join(row.value.sizes(), "x"), number_of(row.update),
               row.exported);
    for (const auto& part : row.parts)
      fmt::print(" {}:{}", part.name, static_cast<int>(part.quantization));
    fmt::print("\n");
  }
}

class RandomModel {
 public:
  explicit RandomModel(std::int64_t seed)
      : dice_(static_cast<std::uint64_t>(seed) + 1000),
        fp8_(dice_.below(3) == 0),
        trains_(dice_.below(8) != 0),
        half_(fp8_ || dice_.below(4) == 0),
        config_(random_config(dice_, fp8_)),
        generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))),
        table_(drawn(seed)),
        model_(test::plan_of(config_), table_, numerics()) {}

  void print() {
    std::string losses;
    for (int step = 0; step < (trains_ ? 10 : 0); ++step) {
      if (step == 5 && dice_.coin()) model_.set_fake_quant(true);
      model_.cast_weights();
      losses += fmt::format(" {:.17g}", this->step());
    }
    model_.cast_weights();
    score();
    decode();
    fmt::print(" {} {}\n ", all_.text(), digest_of(table_));
    fmt::print("{}\n", losses);
  }

 private:
  // Shifted from their initial values, so that no gradient vanishes.
  ParameterTable drawn(std::int64_t seed) {
    auto table =
        weights(config_, {.tied_embed_init_std = 0.3}, half_ ? at::kBFloat16 : at::kFloat, seed);
    for (const auto& row : table.rows()) {
      const auto value = row.value.detach();
      value.add_(at::randn(value.sizes(), generator_).mul(0.2).to(value.scalar_type()));
      at::Tensor(row.value).set_requires_grad(trains_);
    }
    return table;
  }
  Numerics numerics() {
    const auto recompute = dice_.one_of(
        {ActivationRecompute::off, ActivationRecompute::light, ActivationRecompute::block});
    Numerics numerics{.compute = half_ ? at::kBFloat16 : at::kFloat,
                      .record_quirks = dice_.coin(),
                      .padding = {.vocab = dice_.one_of<std::int64_t>({1, 16}),
                                  .channels = fp8_ ? 16 : dice_.one_of<std::int64_t>({1, 8})},
                      .recompute = recompute};
    if (fp8_) {
      numerics.fp8 = {.mlp = dice_.coin(), .qkv = dice_.coin(), .out = dice_.coin(), .head = true};
      numerics.has_fp8 = dice_.below(4) != 0;
      numerics.step_tokens = kRows * kLength;
    }
    return numerics;
  }
  at::Tensor ids(std::int64_t length) {
    return at::randint(config_.vocab_size, {kRows, length}, generator_, at::kLong);
  }

  // Returns the loss of two micro-batches and moves the parameters one step against the gradient.
  double step() {
    double sum = 0;
    for (int part = 0; part < 2; ++part) {
      const auto tokens = ids(kLength + 1);
      const bool trains = dice_.below(4) != 0;
      const auto loss = model_.loss(tokens.slice(1, 0, -1), tokens.slice(1, 1),
                                    {.auxiliary_losses = trains, .fp8 = trains, .scale = 0.5});
      loss.backward();
      sum += loss.item<double>();
    }
    model_.collect_gradients();
    const at::NoGradGuard no_grad;
    for (const auto& row : table_.rows()) {
      auto& gradient = at::Tensor(row.value).mutable_grad();
      all_.add(at::scalar_tensor(gradient.defined() ? 1 : 0));
      if (!gradient.defined()) continue;
      all_.add(gradient);
      row.value.detach().sub_(gradient, 0.05 / std::max(1.0, gradient.norm().item<double>()));
      gradient.zero_();
    }
    if (model_.fp8_scales().defined()) {
      all_.add(model_.fp8_scales().amax());
      model_.fp8_scales().update();
      all_.add(model_.fp8_scales().scales());
    }
    return sum;
  }

  void score() {
    const auto tokens = ids(kLength + 1), in = tokens.slice(1, 0, -1), out = tokens.slice(1, 1);
    all_.add(model_.token_losses(in, out));
    const auto last = Positions{kLength - 5, kLength - 2};
    all_.add(model_.token_losses(in, out.slice(1, last.from, last.to), last));
    all_.add(model_.logits(in, last, kLength + 7));
  }
  void decode() {
    const auto tokens = ids(kLength);
    auto cache = model_.make_cache(kRows, kLength);
    for (std::int64_t from = 0; from < kLength;) {
      const auto to = std::min(kLength, from + dice_.between(1, 4));
      all_.add(model_.next_logits(tokens.slice(1, from, to), cache));
      from = to;
    }
  }

  static constexpr std::int64_t kRows = 2, kLength = 16;
  Dice dice_;
  const bool fp8_, trains_, half_;
  const ModelConfig config_;
  at::Generator generator_;
  ParameterTable table_;
  Gpt model_;
  Digest all_;
};

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  const std::int64_t models = argc > 1 ? std::atoll(argv[1]) : 150;
  at::set_num_threads(1);
  for (std::int64_t seed = 0; seed < 300; ++seed) tg::print_initial(seed);
  for (std::int64_t seed = 0; seed < models; ++seed) {
    fmt::print("model {}", seed);
    tg::RandomModel(seed).print();
  }
}
