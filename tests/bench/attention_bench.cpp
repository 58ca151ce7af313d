// usage: attention_bench
//
// Compares attention over long rows of documents with rows of 2,048 tokens, with record_1061's
// heads (8 query heads of 64 channels, 4 KV heads) and 98,304 tokens, in bf16. Prints milliseconds,
// and TFLOP/s counted over the visible pairs of query and key only, so that TFLOP/s of two rows
// compare the time per visible pair. The documents come from synthetic:documents, with log-normal
// lengths. On a CPU the rows are short and each runs once, as a test.
#include <fmt/format.h>

#include "base/program.h"
#include "data/segments.h"
#include "data/synthetic_tokens.h"
#include "op_timer.h"
#include "ops/attention/attention.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 8, kKvHeads = 4, kHeadDim = 64, kVocab = 8192, kBos = 1;

// Segment offsets [count + 1] int32 of the generator's tokens, as the loader computes them.
std::vector<std::int32_t> segments_of(std::int64_t tokens, std::int64_t limit) {
  const SyntheticDocuments documents("train", kVocab, 1337, kBos);
  std::vector<std::uint16_t> ids(static_cast<std::size_t>(tokens));
  documents.read_at(0, ids);
  auto starts = segment_starts(ids, tokens, {.bos_id = kBos, .limit = limit});
  starts.push_back(static_cast<std::int32_t>(tokens));
  return starts;
}

struct Bench {
  at::Device device;
  OpTimer timer;
  std::int64_t tokens;

  at::Tensor random(std::int64_t rows, std::int64_t heads) const {
    const auto dtype = device.is_cuda() ? at::kBFloat16 : at::kFloat;
    return at::randn({rows, tokens / rows, heads, kHeadDim}, at::TensorOptions(device).dtype(dtype))
        .requires_grad_();
  }
  // `pairs`: visible pairs of query and key per head.
  void row(const std::string& name, std::int64_t rows, double pairs,
           const AttentionOptions& options) {
    const double flops = 4.0 * kHeads * kHeadDim * pairs;
    timer.row(
        name, {Cost::Bound::attention, flops, 2.5 * flops},
        {random(rows, kHeads), random(rows, kKvHeads), random(rows, kKvHeads)},
        [&](const auto& in) { return Tensors{causal_attention(in[0], in[1], in[2], options)}; });
  }
  void rows_of(std::int64_t length) {
    row(fmt::format("rows of {}", length), tokens / length,
        static_cast<double>(tokens) * static_cast<double>(length + 1) / 2, {});
  }
  // One row of all tokens, in a batch with room for `capacity` segments, by default exactly as many
  // as it has.
  void documents_up_to(std::int64_t limit, std::int64_t capacity = 0) {
    auto starts = segments_of(tokens, limit);
    double pairs = 0;
    std::int64_t longest = 0;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const std::int64_t length = starts[i + 1] - starts[i];
      pairs += static_cast<double>(length) * static_cast<double>(length + 1) / 2;
      longest = std::max(longest, length);
    }
    auto name = fmt::format("{} segments of documents, up to {}", starts.size() - 1, limit);
    if (capacity > 0) {
      name += fmt::format(", room for {}", capacity);
      starts.resize(static_cast<std::size_t>(capacity + 1), static_cast<std::int32_t>(tokens));
    }
    const auto offsets = at::tensor(starts, at::kInt).to(device);
    row(name, 1, pairs, {.documents = documents_at(offsets, 1, tokens, longest)});
  }
};

void run() {
  const at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  const std::int64_t length = device.is_cuda() ? 2048 : 64, count = device.is_cuda() ? 48 : 4;
  Bench bench{device, OpTimer(device), count * length};
  use_attention(
      choose_attention("auto", device, device.is_cuda() ? at::kBFloat16 : at::kFloat, kHeadDim));
  {
    const at::NoGradGuard no_grad;
    const auto square = bench.random(count, kHeads).detach().flatten(0, 1).flatten(1);
    bench.timer.measure_ceilings({square}, {{square, square.narrow(0, 0, length)}},
                                 {count, length, kHeads, kHeadDim});
  }
  fmt::print("attention of {} tokens, TFLOP/s of visible pairs, and of what LibTorch's reaches\n",
             bench.tokens);
  bench.rows_of(length);
  bench.documents_up_to(length);
  for (const std::int64_t capacity : {192, 256, 448}) bench.documents_up_to(length, capacity);
  bench.documents_up_to(length / 2);
  bench.rows_of(length / 2);
}

}  // namespace
}  // namespace tg

int main() {
  return tg::run_program([] { tg::run(); });
}
