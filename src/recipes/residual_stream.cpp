#include "recipes/residual_stream.h"

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

// Runs layer call(in) under activation checkpointing, recomputed() of model/recompute.h.
ResidualStream recomputed_layer(std::function<ResidualStream(const ResidualStream&)> call,
                                const ResidualStream& in) {
  const auto form = std::make_shared<ResidualStream>();  // of the result
  const auto out = recomputed(
      [call = std::move(call), from = form_of(in), form](const std::vector<at::Tensor>& tensors) {
        const auto result = call(with_tensors(from, tensors));
        *form = form_of(result);
        return tensors_of(result);
      },
      tensors_of(in));
  return with_tensors(*form, out);
}

}  // namespace

PassOutput run_layers(const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& x0_btd, const CallValues& values,
                      const LayerFlow& layer_flow) {
  ResidualStream stream{.x0 = x0_btd, .terms = {{.tensor = x0_btd}}};
  std::vector<at::Tensor> kept(static_cast<std::size_t>(pass.slots));
  const auto slot = [&](std::int64_t i) -> at::Tensor& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (const auto& call : pass.calls) {
    if (call.skip.slot) stream.skip = std::exchange(slot(*call.skip.slot), {});
    stream.values = values(call);
    const auto run = [&layers, &call, inputs, layer_flow](const ResidualStream& in) {
      return layer_flow(layers, Layer(layers, call, inputs, in.x0), in);
    };
    stream = layers.recomputes_blocks() ? recomputed_layer(run, stream) : run(stream);
    if (call.keep_input) slot(*call.keep_input) = std::exchange(stream.input, {});
  }
  return {std::move(stream), std::move(kept)};
}

}  // namespace tg
