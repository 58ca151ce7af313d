// Tests ops/attention/projection/qkv_proj_norm_rope.h on a GPU against fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Case {
  const char* name;
  struct {
    std::int64_t batch, tokens, dim;
  } x;
  struct {
    std::int64_t count, kv_count, dim, rope_dims;
    std::int64_t channels = 0;  // counted by the norm's mean; 0: all
    bool interleaved = false;   // pairs of channels
    bool paired = false;        // with two tables
    bool key_offset = false;
  } head;
  bool embedding = false;   // has a value embedding
  bool residual = false;    // adds the first layer's values
  bool scaled = false;      // has a row_scale
  bool gain = true;         // has a q_gain
  bool contiguous = false;  // QkvInputs::contiguous in run()
  bool supported = true;    // by the Hopper kernels
  bool has_kernel = true;   // any
  at::ScalarType dtype = at::kBFloat16;
};

const Case kCases[] = {
    {.name = "record",
     .x = {.batch = 2, .tokens = 2048, .dim = 512},
     .head = {.count = 8, .kv_count = 4, .dim = 64, .rope_dims = 16}},
    {.name = "record_with_embedding",
     .x = {.batch = 1, .tokens = 2048, .dim = 512},
     .head = {.count = 8, .kv_count = 4, .dim = 64, .rope_dims = 16},
     .embedding = true},
    {.name = "speedrun",
     .x = {.batch = 2, .tokens = 1024, .dim = 768},
     .head = {.count = 6, .kv_count = 6, .dim = 128, .rope_dims = 128},
     .residual = true},
    {.name = "speedrun_scaled",
     .x = {.batch = 2, .tokens = 333, .dim = 768},
     .head = {.count = 6, .kv_count = 6, .dim = 128, .rope_dims = 128},
     .residual = true,
     .scaled = true},
    {.name = "padded_heads",
     .x = {.batch = 2, .tokens = 333, .dim = 152},
     .head = {.count = 3, .kv_count = 1, .dim = 64, .rope_dims = 64, .channels = 50}},
    {.name = "one_token",
     .x = {.batch = 1, .tokens = 1, .dim = 64},
     .head = {.count = 2, .kv_count = 1, .dim = 64, .rope_dims = 32}},
    {.name = "partial_tiles",
     .x = {.batch = 3, .tokens = 333, .dim = 200},
     .head = {.count = 3, .kv_count = 1, .dim = 64, .rope_dims = 32},
     .embedding = true,
     .residual = true},
    {.name = "many_tiles",
     .x = {.batch = 1, .tokens = 9001, .dim = 72},
     .head = {.count = 5, .kv_count = 5, .dim = 64, .rope_dims = 64},
     .residual = true},
    {.name = "many_tiles_of_128",
     .x = {.batch = 1, .tokens = 9001, .dim = 72},
     .head = {.count = 6, .kv_count = 6, .dim = 128, .rope_dims = 128},
     .gain = false},
    {.name = "heads_of_128_rotated_in_part",
     .x = {.batch = 2, .tokens = 65, .dim = 256},
     .head = {.count = 2, .kv_count = 1, .dim = 128, .rope_dims = 64}},
    {.name = "heads_of_128_rotated_a_little",
     .x = {.batch = 3, .tokens = 333, .dim = 200},
     .head = {.count = 3, .kv_count = 1, .dim = 128, .rope_dims = 16},
     .embedding = true,
     .residual = true},
    {.name = "interleaved",
     .x = {.batch = 2, .tokens = 333, .dim = 152},
     .head = {.count = 6, .kv_count = 6, .dim = 128, .rope_dims = 64, .interleaved = true},
     .scaled = true},
    {.name = "interleaved_96_channels",
     .x = {.batch = 2, .tokens = 333, .dim = 152},
     .head = {.count = 4,
              .kv_count = 2,
              .dim = 128,
              .rope_dims = 48,
              .channels = 96,
              .interleaved = true}},
    {.name = "paired",
     .x = {.batch = 3, .tokens = 65, .dim = 200},
     .head = {.count = 6,
              .kv_count = 4,
              .dim = 128,
              .rope_dims = 64,
              .interleaved = true,
              .paired = true},
     .embedding = true},
    {.name = "key_offset",
     .x = {.batch = 3, .tokens = 65, .dim = 200},
     .head = {.count = 2,
              .kv_count = 2,
              .dim = 128,
              .rope_dims = 64,
              .interleaved = true,
              .key_offset = true},
     .scaled = true},
    {.name = "paired_key_offset_96_channels",
     .x = {.batch = 3, .tokens = 65, .dim = 200},
     .head = {.count = 4,
              .kv_count = 2,
              .dim = 128,
              .rope_dims = 48,
              .channels = 96,
              .interleaved = true,
              .paired = true,
              .key_offset = true},
     .residual = true},
    {.name = "paired_apart",
     .x = {.batch = 2, .tokens = 384, .dim = 200},
     .head = {.count = 6,
              .kv_count = 6,
              .dim = 128,
              .rope_dims = 64,
              .interleaved = true,
              .paired = true},
     .embedding = true,
     .contiguous = true},
    {.name = "paired_key_offset_apart",
     .x = {.batch = 1, .tokens = 256, .dim = 200},
     .head = {.count = 4,
              .kv_count = 4,
              .dim = 128,
              .rope_dims = 48,
              .channels = 96,
              .interleaved = true,
              .paired = true,
              .key_offset = true},
     .scaled = true,
     .contiguous = true},
    {.name = "paired_heads_of_64",
     .x = {.batch = 2, .tokens = 65, .dim = 256},
     .head = {.count = 4,
              .kv_count = 2,
              .dim = 64,
              .rope_dims = 48,
              .interleaved = true,
              .paired = true,
              .key_offset = true},
     .supported = false},
    {.name = "heads_of_32",
     .x = {.batch = 2, .tokens = 65, .dim = 256},
     .head = {.count = 4, .kv_count = 2, .dim = 32, .rope_dims = 32},
     .supported = false},
    {.name = "rotated_half_of_4_bytes",
     .x = {.batch = 2, .tokens = 65, .dim = 256},
     .head = {.count = 4, .kv_count = 2, .dim = 64, .rope_dims = 4},
     .supported = false,
     .has_kernel = false},
    {.name = "rows_of_200_bytes",
     .x = {.batch = 2, .tokens = 65, .dim = 100},
     .head = {.count = 4, .kv_count = 2, .dim = 64, .rope_dims = 16},
     .supported = false},
};

class QkvProjNormRopeGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  static std::int64_t width(const Case& c) {
    return (c.head.count + 2 * c.head.kv_count) * c.head.dim;
  }

  // Inputs that the case omits are undefined.
  struct Inputs {
    at::Tensor x, weight, q_gain, embedding, first_v, first_weight, row_scale;

    template <class Action>
    void for_each_defined(const Action& action) {
      for (auto* tensor : {&x, &weight, &q_gain, &embedding, &first_v, &first_weight}) {
        if (tensor->defined()) action(*tensor);
      }
    }
  };
  static Inputs inputs_of(const Case& c) {
    const auto values = c.head.kv_count * c.head.dim;
    Inputs in;
    in.x = test::normal({c.x.batch, c.x.tokens, c.x.dim}, 1, c.dtype);
    in.weight = (test::normal({width(c), c.x.dim}, 2) / std::sqrt(static_cast<double>(c.x.dim)))
                    .to(c.dtype);
    if (c.gain) {
      in.q_gain = test::normal({c.head.count}, 3, at::kFloat);
      in.q_gain[0] = 0;
    }
    if (c.embedding) in.embedding = test::normal({c.x.batch, c.x.tokens, values}, 4, c.dtype);
    if (c.residual) {
      in.first_weight = test::normal({}, 5, at::kFloat);
      in.first_v = test::normal({c.x.batch, c.x.tokens, c.head.kv_count, c.head.dim}, 6, c.dtype);
    }
    if (c.scaled) in.row_scale = test::normal({c.x.batch, c.x.tokens}, 11, at::kFloat).abs() + 0.5;
    return in;
  }
  static Inputs without_gradients(const Case& c) {
    auto in = inputs_of(c);
    in.for_each_defined([](at::Tensor& x) { x = x.to(test::kGpu); });
    if (c.scaled) in.row_scale = in.row_scale.to(test::kGpu);
    return in;
  }

  static RopeTable table_of(const Case& c, at::Device device, at::ScalarType dtype) {
    const RopeOptions options{.dims = c.head.rope_dims, .interleaved = c.head.interleaved};
    const auto table = c.head.paired
                           ? make_paired_rope_table(c.x.tokens, options, c.dtype, at::kCPU)
                           : make_rope_table(c.x.tokens, options, c.dtype, at::kCPU);
    return {table.cos.to(device, dtype), table.sin.to(device, dtype), table.interleaved};
  }
  static QkvInputs besides_projection(const Case& c, const Inputs& in, bool contiguous = false) {
    return {.heads = c.head.count,
            .kv_heads = c.head.kv_count,
            .q_gain = in.q_gain,
            .value_embedding = in.embedding,
            .value_residual = c.residual,
            .first_v = in.first_v,
            .first_weight = in.first_weight,
            .channels = c.head.channels,
            .key_offset = c.head.key_offset,
            .contiguous = contiguous};
  }
  static NormedInput normed(const Inputs& in) {
    return in.row_scale.defined() ? NormedInput::deferred_scale(in.x, in.row_scale) : in.x;
  }
  static Qkv call(const Case& c, const Inputs& in, const Weight& weight, const RopeTable& table,
                  bool contiguous = false) {
    return qkv_proj_norm_rope(normed(in), weight, besides_projection(c, in, contiguous), table);
  }

  struct Results {
    at::Tensor q, k, v;
    std::vector<std::pair<std::string, at::Tensor>> gradients;  // of the defined inputs
  };
  static Results run(const Case& c, bool exact) {
    const at::Device device = exact ? at::kCPU : test::kGpu;
    auto in = inputs_of(c);
    in.for_each_defined([&](at::Tensor& x) {
      x = x.to(device, exact ? at::kDouble : x.scalar_type()).detach().set_requires_grad(true);
    });
    // In fp64 autograd computes the weight's gradient; on the GPU the GEMM accumulates it.
    Weight weight{in.weight, {}};
    if (!exact) weight = {in.weight.detach(), at::zeros_like(in.weight, at::kFloat).detach()};
    if (c.scaled) in.row_scale = in.row_scale.to(device, exact ? at::kDouble : at::kFloat);
    const auto out =
        call(c, in, weight, table_of(c, device, exact ? at::kDouble : c.dtype), c.contiguous);
    const auto upstream = [&](std::int64_t heads, std::uint64_t seed) {
      return test::normal({c.x.batch, c.x.tokens, heads, c.head.dim}, seed, c.dtype)
          .to(device, out.q.scalar_type());
    };
    torch::autograd::backward({out.q, out.k, out.v, out.exclusive_v},
                              {upstream(c.head.count, 7), upstream(c.head.kv_count, 8),
                               upstream(c.head.kv_count, 9), upstream(c.head.kv_count, 10)});
    Results found{.q = out.q.detach(), .k = out.k.detach(), .v = out.v.detach(), .gradients = {}};
    const auto add = [&](const char* name, const at::Tensor& input, const at::Tensor& gradient) {
      if (input.defined()) found.gradients.emplace_back(name, gradient);
    };
    add("x", in.x, in.x.grad());
    add("weight", in.weight, exact ? in.weight.grad() : weight.gradient);
    for (const auto& [name, input] : {std::pair{"q_gain", in.q_gain},
                                      {"embedding", in.embedding},
                                      {"first_v", in.first_v},
                                      {"first_weight", in.first_weight}}) {
      if (input.defined()) add(name, input, input.grad());
    }
    return found;
  }
};

// The largest relative rounding error of the dtype.
double rounding_of(at::ScalarType dtype) {
  return dtype == at::kHalf ? 1.0 / 2048 : 1.0 / 256;
}

// The largest row norm of the error, relative to the root mean square norm of all rows.
double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto width = exact.dim() < 2 ? exact.numel() : exact.size(-1);
  const auto right = exact.reshape({-1, width});
  const auto off = (found.cpu().to(at::kDouble).reshape({-1, width}) - right).norm(2, 1);
  const auto size = right.norm(2, 1).square().mean().sqrt();
  return (off.max() / size).item<double>();
}

TEST_P(QkvProjNormRopeGpu, MatchesTheReferenceInFp64) {
  const auto c = GetParam();
  const auto found = run(c, false), right = run(c, true);
  // A few roundings before each element.
  const double tolerance = 4 * rounding_of(c.dtype);
  EXPECT_LE(worst_row(found.q, right.q), tolerance);
  EXPECT_LE(worst_row(found.k, right.k), tolerance);
  EXPECT_LE(worst_row(found.v, right.v), tolerance);
  ASSERT_EQ(found.gradients.size(), right.gradients.size());
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    const auto& [name, gradient] = found.gradients[i];
    EXPECT_LE(worst_row(gradient, right.gradients[i].second), tolerance) << "gradient of " << name;
  }
  const auto token_stride = c.contiguous ? c.head.count * c.head.dim : width(c);
  EXPECT_EQ(found.q.stride(1) == token_stride, c.has_kernel) << "not the path that was meant";
  if (!c.supported || !use_hopper_kernels(found.q)) return;
  // The epilogue rounds its output once; in fp16 a gain of 0 becomes 2^-14 (nonzero_gain).
  const double smallest = c.dtype == at::kHalf ? 6 * 0x1p-14 : 1e-4;
  EXPECT_TRUE(test::is_close(found.q, right.q, 1.01 * rounding_of(c.dtype), smallest));
  EXPECT_TRUE(test::is_close(found.k, right.k, 1.01 * rounding_of(c.dtype), smallest));
  EXPECT_TRUE(test::is_close(found.v, right.v, 1.01 * rounding_of(c.dtype), 1e-4));
  EXPECT_EQ(found.v.stride(1), token_stride) << "v is not the projection's";
}

TEST_P(QkvProjNormRopeGpu, GivesTheSameBitsAgainAndWithoutGradients) {
  const auto c = GetParam();
  const auto first = run(c, false), second = run(c, false);
  EXPECT_TRUE(at::equal(first.q, second.q));
  EXPECT_TRUE(at::equal(first.k, second.k));
  EXPECT_TRUE(at::equal(first.v, second.v));
  for (std::size_t i = 0; i < first.gradients.size(); ++i) {
    const auto& [name, gradient] = first.gradients[i];
    EXPECT_TRUE(at::equal(gradient, second.gradients[i].second)) << "gradient of " << name;
  }

  const at::NoGradGuard no_grad;
  const auto in = without_gradients(c);
  const auto out = call(c, in, {in.weight, {}}, table_of(c, test::kGpu, c.dtype));
  EXPECT_TRUE(at::equal(out.q, first.q));
  EXPECT_TRUE(at::equal(out.k, first.k));
  EXPECT_TRUE(at::equal(out.v, first.v));
}

TEST_P(QkvProjNormRopeGpu, ContiguousHeadsAreTheSame) {
  const auto c = GetParam();
  const at::NoGradGuard no_grad;
  const auto in = without_gradients(c);
  auto inputs = besides_projection(c, in);
  const auto table = table_of(c, test::kGpu, c.dtype);
  // The reference's may be views.
  if (!qk_norm_rope_kernels_support(in.x, c.head.dim, inputs, table)) return;
  const auto run = [&] { return qkv_proj_norm_rope(normed(in), {in.weight, {}}, inputs, table); };
  const auto views = run();
  inputs.contiguous = true;
  const auto copies = run();
  for (const auto& [copy, view] : {std::pair{copies.q, views.q},
                                   {copies.k, views.k},
                                   {copies.v, views.v},
                                   {copies.exclusive_v, views.exclusive_v}}) {
    EXPECT_TRUE(copy.is_contiguous());
    EXPECT_TRUE(at::equal(copy, view));
  }
}

TEST_P(QkvProjNormRopeGpu, QueriesOfSomePositionsAreThoseOfAll) {
  const auto c = GetParam();
  const at::NoGradGuard no_grad;
  const auto in = without_gradients(c);
  const Weight weight{in.weight, {}};
  const auto table = table_of(c, test::kGpu, c.dtype);
  const auto all = call(c, in, weight, table);
  const auto first = c.x.tokens / 2, count = (c.x.tokens + 2) / 3;
  const auto some = qkv_proj_norm_rope_of_queries(normed(in), weight, besides_projection(c, in),
                                                  table, first, count);
  const auto exact = [](const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); };
  // Equal roundings except one of scaled rows; before them, a GEMM of another size may sum in
  // another order.
  const double tolerance = (c.scaled ? 3 : 1) * rounding_of(c.dtype);
  EXPECT_LE(worst_row(some.q, exact(all.q.narrow(1, first, count))), tolerance);
  EXPECT_LE(worst_row(some.k, exact(all.k)), tolerance);
  EXPECT_LE(worst_row(some.v, exact(all.v)), tolerance);
  EXPECT_EQ(some.first_v.defined(), all.first_v.defined());
  // Only query heads, and only key and value heads.
  EXPECT_EQ(some.k.stride(1) == 2 * c.head.kv_count * c.head.dim,
            c.has_kernel && count < c.x.tokens && !c.head.key_offset)
      << "not the path that was meant";
}

std::vector<Case> cases_in_both_dtypes() {
  std::vector<Case> all;
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (auto c : kCases) {
      c.dtype = dtype;
      all.push_back(c);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, QkvProjNormRopeGpu, ::testing::ValuesIn(cases_in_both_dtypes()),
                         [](const auto& tested) {
                           return std::string(tested.param.name) + "_" +
                                  c10::toString(tested.param.dtype);
                         });

}  // namespace
}  // namespace tg
