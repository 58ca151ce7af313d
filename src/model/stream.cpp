#include "model/stream.h"

#include "model/recompute.h"

namespace tg {

namespace {

std::vector<at::Tensor> tensors_of(const Stream& stream) {
  std::vector<at::Tensor> tensors;
  for (const auto member : Stream::tensors()) tensors.push_back(stream.*member);
  return tensors;
}

Stream stream_of(const std::vector<at::Tensor>& tensors, const Fp8Scaling& scaling = {}) {
  Stream stream{.branch_gradient_scaling = scaling};
  std::size_t i = 0;
  for (const auto member : Stream::tensors()) stream.*member = tensors[i++];
  return stream;
}

}  // namespace

Stream recomputed(std::function<Stream(const Stream&)> visit, const Stream& in) {
  return stream_of(recomputed(
      [visit = std::move(visit),
       scaling = in.branch_gradient_scaling](const std::vector<at::Tensor>& tensors) {
        return tensors_of(visit(stream_of(tensors, scaling)));
      },
      tensors_of(in)));
}

}  // namespace tg
