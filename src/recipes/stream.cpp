#include "recipes/stream.h"

#include <memory>
#include <utility>

#include "model/recompute.h"

namespace tg {

namespace {

std::vector<at::Tensor> tensors_of(ResidualStream stream) {
  std::vector<at::Tensor> tensors;
  stream.for_each_tensor([&](const at::Tensor& x) { tensors.push_back(x); });
  return tensors;
}

ResidualStream with_tensors(ResidualStream stream, const std::vector<at::Tensor>& tensors) {
  std::size_t i = 0;
  stream.for_each_tensor([&](at::Tensor& x) { x = tensors[i++]; });
  return stream;
}

// Copies all but the tensors, which the copy would otherwise keep alive.
ResidualStream form_of(ResidualStream stream) {
  stream.for_each_tensor([](at::Tensor& x) { x.reset(); });
  return stream;
}

// Runs visit(in) under activation checkpointing, recomputed() of model/recompute.h.
ResidualStream recomputed_visit(std::function<ResidualStream(const ResidualStream&)> visit,
                                const ResidualStream& in) {
  const auto form = std::make_shared<ResidualStream>();  // of the result
  const auto out = recomputed(
      [visit = std::move(visit), from = form_of(in), form](const std::vector<at::Tensor>& tensors) {
        const auto result = visit(with_tensors(from, tensors));
        *form = form_of(result);
        return tensors_of(result);
      },
      tensors_of(in));
  return with_tensors(*form, out);
}

}  // namespace

PassOutput run_visits(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& x0_btd, const VisitValues& values,
                      const VisitFlow& visit_flow) {
  ResidualStream stream{.x0 = x0_btd, .terms = {{.tensor = x0_btd}}};
  std::vector<at::Tensor> kept(static_cast<std::size_t>(pass.slots));
  const auto slot = [&](std::int64_t i) -> at::Tensor& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (const auto& visit : pass.visits) {
    if (visit.skip.slot) stream.skip = std::exchange(slot(*visit.skip.slot), {});
    stream.values = values(visit);
    const auto run = [&layers, &visit, inputs, visit_flow](const ResidualStream& in) {
      return visit_flow(layers, Layer(layers, visit, inputs, in.x0), in);
    };
    stream = layers.recomputes_blocks() ? recomputed_visit(run, stream) : run(stream);
    if (visit.keep_input) slot(*visit.keep_input) = std::exchange(stream.input, {});
  }
  return {std::move(stream), std::move(kept)};
}

}  // namespace tg
