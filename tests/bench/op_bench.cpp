// usage: op_bench [record] [speedrun_124m] [heads] [composed] [speedrun_89] [--match TEXT]
//
// Times each operation of ops/ at the shapes of configs/record.env and configs/speedrun_124m.env,
// heads of 8,192 columns and of Llama 3's and Qwen's vocabularies, composed attention, and record
// 89's layers, in bf16:
// milliseconds forward and backward, GB/s or TFLOP/s, as a fraction of what a copy, a GEMM and
// attention reach on this machine, and the time of the reference (FUSED=0). On a CPU the shapes are
// tiny and each runs once, as a test that every row works.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/program.h"
#include "op_rows.h"
#include "ops/attention/attention.h"

namespace tg {
namespace {

constexpr Recipe kRecipes[] = {
    {"record", 48, 2048, 512, 8, 4, 16, 11, 1536, 1024, 0.5, false},
    {"speedrun_124m", 64, 1024, 768, 6, 6, 128, 12, 3072, 50304, 0, true},
};

Recipe tiny(Recipe r) {
  r.batch = r.layers = 1;
  r.seq_len = 64;
  r.dim = 16 * r.heads;
  r.rope_dims = 16;
  r.hidden = 2 * r.dim;
  r.vocab = 128;
  return r;
}

constexpr std::string_view kHeads = "heads", kComposed = "composed", kSpeedrun89 = "speedrun_89";

// The head and its loss: [tokens, dim] x [columns, dim].
void heads(OpTimer& timer, const Inputs& make, std::int64_t tokens, std::int64_t columns) {
  fmt::print("\n{}, of {} tokens and {} columns\n", kHeads, tokens, columns);
  {
    const at::NoGradGuard no_grad;
    const auto plain = [&](at::IntArrayRef shape) { return at::randn(shape, make.options); };
    timer.measure_ceilings({plain({tokens, 512})},
                           {{plain({tokens, 512}), plain({columns, 512})},
                            {plain({tokens, 768}), plain({columns, 768})}},
                           {1, 64, 8, 64});
  }
  head_rows(timer, make, tokens, columns);
}

// Rows of one row of tokens.
void of_row(OpTimer& timer, const Inputs& make, std::int64_t tokens, std::string_view name,
            void (*rows)(OpTimer&, const Inputs&, std::int64_t)) {
  fmt::print("\n{}, of a row of {} tokens\n", name, tokens);
  {
    const at::NoGradGuard no_grad;
    const auto plain = [&](at::IntArrayRef shape) { return at::randn(shape, make.options); };
    timer.measure_ceilings({plain({tokens, 768})}, {{plain({tokens, 768}), plain({768, 768})}},
                           {1, 64, 6, 128});
  }
  rows(timer, make, tokens);
}

void run(int argc, char** argv) {
  std::vector<std::string_view> names(argv + 1, argv + argc);
  std::string match;  // only the operations whose name contains it
  if (names.size() >= 2 && names[names.size() - 2] == "--match") {
    match = names.back();
    names.resize(names.size() - 2);
  }
  const at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  for (const auto name : names) {
    REQUIRE(name == kHeads || name == kComposed || name == kSpeedrun89 ||
                std::any_of(std::begin(kRecipes), std::end(kRecipes),
                            [&](const Recipe& r) { return name == r.name; }),
            ExitCode::usage,
            "usage: op_bench [record] [speedrun_124m] [heads] [composed] [speedrun_89] [--match "
            "TEXT], got '{}'",
            name);
  }
  const Inputs make{at::TensorOptions(device).dtype(device.is_cuda() ? at::kBFloat16 : at::kFloat)};
  OpTimer timer(device, match);
  const auto wanted = [&](std::string_view name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  for (Recipe recipe : kRecipes) {
    if (!wanted(recipe.name)) continue;
    if (!device.is_cuda()) recipe = tiny(recipe);
    const auto tokens = recipe.batch * recipe.seq_len, head_dim = recipe.dim / recipe.heads;
    use_attention(choose_attention("auto", device, make.dtype(), head_dim));
    fmt::print("\n{}, operations of a micro-step of {} tokens\n", recipe.name, tokens);
    {
      const at::NoGradGuard no_grad;
      const auto plain = [&](at::IntArrayRef shape) { return at::randn(shape, make.options); };
      timer.measure_ceilings({plain({8 * tokens, recipe.dim})},
                             {{plain({tokens, recipe.dim}), plain({recipe.hidden, recipe.dim})},
                              {plain({tokens, recipe.hidden}), plain({recipe.dim, recipe.hidden})}},
                             {recipe.batch, recipe.seq_len, recipe.heads, head_dim});
    }
    fmt::print("{:38}{:>9}{:>16}{:>8}{:>11}{:>9}\n", "", "ms", "", "share", "FUSED=0 ms", "ratio");
    memory_bound_rows(timer, recipe, make);
    gemm_rows(timer, recipe, make);
    attention_rows(timer, recipe, make);
    muon_rows(timer, recipe, make);
  }
  const std::int64_t row = device.is_cuda() ? 49152 : 300;
  if (wanted(kComposed)) of_row(timer, make, row, kComposed, composed_attention_rows);
  if (wanted(kSpeedrun89)) {
    use_attention(choose_attention("auto", device, make.dtype(), 128));
    of_row(timer, make, row, kSpeedrun89, speedrun_89_rows);
  }
  if (!wanted(kHeads)) return;
  if (!device.is_cuda()) return heads(timer, make, 16, 64);
  heads(timer, make, 65536, 8192);
  for (const std::int64_t columns : {128256, 151936}) heads(timer, make, 16384, columns);
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
