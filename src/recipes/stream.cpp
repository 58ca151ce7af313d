#include "recipes/stream.h"

#include <memory>
#include <utility>

#include "model/recompute.h"

namespace tg {

namespace {

std::vector<at::Tensor> tensors_of(Stream stream) {
  std::vector<at::Tensor> tensors;
  stream.for_each_tensor([&](const at::Tensor& x) { tensors.push_back(x); });
  return tensors;
}

Stream with_tensors(Stream stream, const std::vector<at::Tensor>& tensors) {
  std::size_t i = 0;
  stream.for_each_tensor([&](at::Tensor& x) { x = tensors[i++]; });
  return stream;
}

// All but its tensors, which would live as long as it does.
Stream form_of(Stream stream) {
  stream.for_each_tensor([](at::Tensor& x) { x.reset(); });
  return stream;
}

}  // namespace

Stream recomputed(std::function<Stream(const Stream&)> visit, const Stream& in) {
  const auto form = std::make_shared<Stream>();  // of the result
  const auto out = recomputed(
      [visit = std::move(visit), from = form_of(in), form](const std::vector<at::Tensor>& tensors) {
        const auto result = visit(with_tensors(from, tensors));
        *form = form_of(result);
        return tensors_of(result);
      },
      tensors_of(in));
  return with_tensors(*form, out);
}

}  // namespace tg
