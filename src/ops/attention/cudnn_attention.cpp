#include <ATen/Context.h>
#include <ATen/cudnn/Handle.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/segments.h"
#include "ops/attention/flash_attention.h"
#include "ops/fused.h"

namespace tg {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

// Ids of the graph's tensors.
enum Id : std::int64_t { q_id = 1, k_id, v_id, y_id, stats_id, lengths_id };
constexpr std::int64_t ragged_offset_id(std::int64_t id) {
  return 100 + id;
}

// Layout of a tensor of heads [tokens, heads, hd]; segments are consecutive.
struct Heads {
  std::int64_t count, token_stride, head_stride;
  auto operator<=>(const Heads&) const = default;
};

struct Problem {
  at::ScalarType dtype;
  std::int64_t segments, longest, tokens, head_dim, window;
  Heads q, k, v;
  double scale;
  auto operator<=>(const Problem&) const = default;
};

// A finalized graph; null if cuDNN has no kernel. Each run has its own workspace, since several
// streams may run the graph concurrently.
struct Plan {
  std::unique_ptr<fe::graph::Graph> graph;
  std::int64_t workspace_bytes = 0;
};

Heads layout_of(const at::Tensor& x_thd) {
  return {x_thd.size(1), x_thd.stride(0), x_thd.stride(1)};
}
// Returns the layout of the kernel's output.
Heads contiguous_heads(std::int64_t heads, std::int64_t head_dim) {
  return {heads, heads * head_dim, head_dim};
}

// Builds a cuDNN SDPA graph with ragged tensors: segment i has lengths[i] tokens and begins at
// element offsets[i] of each tensor.
class Builder {
 public:
  explicit Builder(const Problem& problem)
      : problem_(problem), graph_(std::make_unique<fe::graph::Graph>()) {
    graph_
        ->set_io_data_type(problem.dtype == at::kHalf ? fe::DataType_t::HALF
                                                      : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::unique_ptr<fe::graph::Graph> build() {
    const auto lengths = input(lengths_id, problem_.segments);
    fe::graph::SDPA_attributes options;
    options.set_name("attention")
        .set_attn_scale(static_cast<float>(problem_.scale))
        .set_generate_stats(true)
        .set_padding_mask(true)
        .set_seq_len_q(lengths)
        .set_seq_len_kv(lengths)
        .set_causal_mask(true);
    if (problem_.window > 0) options.set_sliding_window_length(static_cast<int>(problem_.window));
    const auto q = graph_->tensor(heads(q_id, problem_.q));
    const auto k = graph_->tensor(heads(k_id, problem_.k));
    const auto v = graph_->tensor(heads(v_id, problem_.v));
    const auto [y, stats] = graph_->sdpa(q, k, v, options);
    const auto y_layout = contiguous_heads(problem_.q.count, problem_.head_dim);
    y->set_output(true)
        .set_uid(y_id)
        .set_dim(dims(y_layout, problem_.head_dim))
        .set_stride(strides(y_layout))
        .set_ragged_offset(offsets(y_id));
    // [heads, tokens].
    const Heads stats_layout{problem_.q.count, 1, problem_.tokens};
    stats->set_output(true)
        .set_uid(stats_id)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(dims(stats_layout, 1))
        .set_stride(strides(stats_layout))
        .set_ragged_offset(offsets(stats_id));
    const auto handle = at::native::getCudnnHandle();
    return graph_->build(handle, {fe::HeurMode_t::A}).is_good() ? std::move(graph_) : nullptr;
  }

 private:
  // [count] int32.
  std::shared_ptr<Tensor_attributes> input(std::int64_t id, std::int64_t count) {
    return graph_->tensor(Tensor_attributes()
                              .set_uid(id)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
  }
  std::shared_ptr<Tensor_attributes> offsets(std::int64_t id) {
    return input(ragged_offset_id(id), problem_.segments + 1);
  }
  std::vector<std::int64_t> dims(const Heads& layout, std::int64_t channels) const {
    return {problem_.segments, layout.count, problem_.longest, channels};
  }
  // The batch stride is not read, since segments begin at ragged offsets.
  std::vector<std::int64_t> strides(const Heads& layout) const {
    return {problem_.tokens * layout.token_stride, layout.head_stride, layout.token_stride, 1};
  }
  Tensor_attributes heads(std::int64_t id, const Heads& layout) {
    return Tensor_attributes()
        .set_uid(id)
        .set_dim(dims(layout, problem_.head_dim))
        .set_stride(strides(layout))
        .set_ragged_offset(offsets(id));
  }

  const Problem& problem_;
  std::unique_ptr<fe::graph::Graph> graph_;
};

const Plan& find_plan(const Problem& problem) {
  static std::map<Problem, Plan> plans;
  const auto found = plans.find(problem);
  if (found != plans.end()) return found->second;
  Plan plan{Builder(problem).build()};
  if (plan.graph) {
    auto status = plan.graph->get_workspace_size(plan.workspace_bytes);
    REQUIRE(status.is_good(), ExitCode::internal, "cuDNN's attention: {}", status.get_message());
  }
  return plans.emplace(problem, std::move(plan)).first->second;
}

// Pads the offsets with empty segments, so that batches with similar numbers of segments share a
// plan.
at::Tensor document_offsets(const Documents& documents, std::int64_t tokens) {
  const auto segments = documents.offsets.numel() - 1;
  const auto empty = rounded_segments(segments) - segments;
  return empty == 0 ? documents.offsets
                    : at::constant_pad_nd(documents.offsets, {0, empty}, tokens);
}

// [rows + 1] int32.
at::Tensor row_offsets(const at::Tensor& x_bthd) {
  const auto length = x_bthd.size(1);
  return at::arange(0, (x_bthd.size(0) + 1) * length, length,
                    at::TensorOptions(x_bthd.device()).dtype(at::kInt));
}

// Returns what is known of the segments, the rows of x or its documents, with their offsets and
// lengths.
std::shared_ptr<Documents::Derived> segments_of(const at::Tensor& x_bthd,
                                                const std::optional<Documents>& documents) {
  auto derived = documents ? documents->derived : std::make_shared<Documents::Derived>();
  if (!derived->segments.defined()) {
    derived->segments = documents ? document_offsets(*documents, x_bthd.size(0) * x_bthd.size(1))
                                  : row_offsets(x_bthd);
    derived->lengths = derived->segments.diff();
  }
  return derived;
}

}  // namespace

std::optional<AttentionForward> cudnn_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                                const at::Tensor& v_bthd, double scale,
                                                const std::optional<Documents>& documents,
                                                std::int64_t window) {
  if (!use_hopper_kernels(q_bthd) || !at::globalContext().userEnabledCuDNNSDP()) return {};
  const auto q = q_bthd.flatten(0, 1), k = k_bthd.flatten(0, 1), v = v_bthd.flatten(0, 1);
  const auto tokens = q.size(0), heads = q.size(1), head_dim = q.size(2);
  const auto widest = std::max({q.stride(0), k.stride(0), v.stride(0), heads * head_dim});
  if (tokens * widest > std::numeric_limits<int>::max()) return {};  // offsets are int32
  const auto derived = segments_of(q_bthd, documents);
  const auto& plan = find_plan({.dtype = q.scalar_type(),
                                .segments = derived->lengths.numel(),
                                .longest = documents ? documents->longest : q_bthd.size(1),
                                .tokens = tokens,
                                .head_dim = head_dim,
                                .window = window,
                                .q = layout_of(q),
                                .k = layout_of(k),
                                .v = layout_of(v),
                                .scale = scale});
  if (!plan.graph) return {};

  const auto y = at::empty({tokens, heads, head_dim}, q.options().requires_grad(false));
  const auto logsumexp = at::empty({heads, tokens}, y.options().dtype(at::kFloat));
  std::unordered_map<std::int64_t, void*> tensors{{lengths_id, derived->lengths.data_ptr()}};
  const auto bind = [&](std::int64_t id, const at::Tensor& x, std::int64_t token_stride) {
    auto& offsets = derived->element_offsets[token_stride];
    if (!offsets.defined()) offsets = derived->segments * token_stride;
    tensors[id] = x.data_ptr();
    tensors[ragged_offset_id(id)] = offsets.data_ptr();
  };
  bind(q_id, q, q.stride(0));
  bind(k_id, k, k.stride(0));
  bind(v_id, v, v.stride(0));
  bind(y_id, y, y.stride(0));
  bind(stats_id, logsumexp, 1);
  const auto workspace = at::empty({plan.workspace_bytes}, y.options().dtype(at::kByte));
  auto status = plan.graph->execute(at::native::getCudnnHandle(), tensors, workspace.data_ptr());
  REQUIRE(status.is_good(), ExitCode::internal, "cuDNN's attention: {}", status.get_message());
  return AttentionForward{y.view(q_bthd.sizes()),
                          logsumexp.view({heads, q_bthd.size(0), q_bthd.size(1)}).transpose(0, 1)};
}

}  // namespace tg
