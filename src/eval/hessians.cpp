#include "eval/hessians.h"

#include <utility>
#include <vector>

#include "device/fit_rows.h"
#include "eval/scores/split_tokens.h"
#include "ops/gemm/linear.h"

namespace tg {

namespace {

// Matrices with the same input.
struct Group {
  Operand operand;
  std::int64_t block;
  std::vector<const ParameterPart*> matrices;
  std::int64_t in() const { return matrices.front()->value.size(1); }
};

std::vector<Group> groups_of(const Plan& plan, const ParameterTable& table) {
  const auto parts = [&](ParameterId id) -> const std::vector<ParameterPart>& {
    return table.rows()[static_cast<std::size_t>(id.row)].parts;
  };
  std::vector<Group> groups;
  for (std::int64_t block = 0; block < std::ssize(plan.blocks); ++block) {
    const auto of_block = [&](const BlockMatrices& matrices) {
      return &parts(matrices.bank)[matrices.part(block)];
    };
    const auto& [queries, keys, values, out, up, down] = plan.matrices;
    if (out.place(block)) {
      groups.push_back(
          {Operand::qkv, block, {of_block(queries), of_block(keys), of_block(values)}});
      groups.push_back({Operand::out, block, {of_block(out)}});
    }
    if (up.place(block)) {
      groups.push_back({Operand::up, block, {of_block(up)}});
      groups.push_back({Operand::down, block, {of_block(down)}});
    }
  }
  const auto head = plan.head.weight ? plan.head.weight : plan.embedding.tokens;
  groups.push_back({Operand::head, -1, {&parts(head).front()}});
  return groups;
}

// Σ x·xᵀ of each GEMM input, padded as in passes.
class OperandSums {
 public:
  // `options` of the sums.
  explicit OperandSums(const at::TensorOptions& options) : options_(options) {}

  void add(const Gpt& model, const at::Tensor& inputs_bt) {
    model.observe(inputs_bt, [this](Operand operand, std::int64_t block, const at::Tensor& x) {
      const auto rows = as_rows(x);
      auto& sum = sums_[{operand, block}];
      if (!sum.defined()) sum = at::zeros({rows.size(1), rows.size(1)}, options_);
      accumulate_gemm(sum, rows.t(), rows);
    });
  }
  // Undefined if no pass was added.
  at::Tensor sum(const Group& group) { return sums_[{group.operand, group.block}]; }

 private:
  at::TensorOptions options_;
  std::map<std::pair<Operand, std::int64_t>, at::Tensor> sums_;
};

// Selects rows and columns of the matrix's channels, in its order.
at::Tensor without_padding(const at::Tensor& sum, const Group& group, const ComputeSizes& sizes) {
  if (sum.size(0) == group.in()) return sum;
  auto channels = at::arange(sum.size(0), sum.options().dtype(at::kLong));
  if (group.operand == Operand::out) {
    const auto by_head = channels.view({-1, sizes.head_dim});
    std::vector<at::Tensor> runs;
    for (const auto& run : sizes.v_runs) runs.push_back(by_head.narrow(1, run.to, run.count));
    channels = at::cat(runs, 1).flatten();
  }
  channels = channels.narrow(0, 0, group.in());
  return sum.index_select(0, channels).index_select(1, channels);
}

// [rows, T] int64, copied without synchronizing with the device.
at::Tensor next_inputs(CalibrationRows& rows, std::int64_t count, at::Device device,
                       Communicator& communicator) {
  const PeerWatch::Work reading(communicator.watch(), "reading tokens for calibration");
  const int id_bytes = rows.id_bytes();
  const auto host =
      at::empty({count, rows.row_tokens()},
                at::TensorOptions(id_dtype(id_bytes)).pinned_memory(device.is_cuda()));
  rows.read(ids_at(static_cast<std::byte*>(host.mutable_data_ptr()), host.numel(), id_bytes));
  return host.to(device, /*non_blocking=*/true).to(at::kLong);
}

std::int64_t fitting_rows(const Gpt& model, std::int64_t length, std::int64_t wanted,
                          const at::TensorOptions& sums) {
  const auto pass = [&](std::int64_t rows) {
    OperandSums(sums).add(model, at::zeros({rows, length}, sums.dtype(at::kLong)));
  };
  return fit_rows(halves(wanted), kSpareBytes, sums.device(), pass).rows;
}

}  // namespace

Hessians collect_hessians(Gpt& model, const ParameterTable& table, CalibrationRows& rows,
                          const CalibrationOptions& options, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  model.set_fake_quant(false);
  model.cast_weights();
  const auto like = table[model.plan().matrices.queries.bank].options().requires_grad(false);
  OperandSums sums(like);
  const int ranks = options.record_quirks ? 1 : communicator.world_size();
  if (communicator.rank() < ranks) {
    const auto count = options.rows_per_batch;
    const auto at_once =
        options.measure_memory ? fitting_rows(model, rows.row_tokens(), count, like) : count;
    for (std::int64_t batch = 0; batch < options.batches; ++batch) {
      const auto inputs = next_inputs(rows, count, like.device(), communicator);
      for (const auto& part : inputs.split(at_once)) sums.add(model, part);
      communicator.progress();
    }
  }

  Hessians hessians;
  std::vector<Pending> reduced;
  for (const auto& group : groups_of(model.plan(), table)) {
    const auto sum = sums.sum(group);
    const auto hessian = sum.defined() ? without_padding(sum, group, model.sizes())
                                       : at::zeros({group.in(), group.in()}, like);
    hessian.div_(static_cast<double>(ranks * options.batches));
    reduced.push_back(communicator.sum(hessian));
    for (const auto* matrix : group.matrices) hessians.emplace(matrix->name, hessian);
  }
  for (auto& pending : reduced) pending.wait();
  communicator.barrier();
  return hessians;
}

}  // namespace tg
