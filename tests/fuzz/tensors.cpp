#include "tests/fuzz/tensors.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include "tests/fuzz/target.h"

namespace tg::fuzz {
namespace {

// LibTorch allocates tensors by an allocator of its own.
class NotingAllocator final : public c10::Allocator {
 public:
  NotingAllocator() { c10::SetCPUAllocator(this, /*priority=*/200); }
  c10::DataPtr allocate(size_t size) override {
    note_allocation(size);
    return c10::GetDefaultCPUAllocator()->allocate(size);
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

NotingAllocator noting;

}  // namespace

NamedTensors small_tensors() {
  return {{"a", at::arange(6, at::kFloat).reshape({2, 3})},
          {"b", at::ones({2}, at::kBool)},
          {"c", at::empty({0})},
          {"d", at::ones({2, 2}, at::kChar)}};
}

PickleDict small_dict() {
  PickleDict dict;
  for (const auto& [name, tensor] : small_tensors()) dict.add(name, tensor);
  dict.add("m", PickleList{{PickleValue(300), PickleValue(0.5), PickleValue("text")}, true});
  dict.add("n", PickleList{{PickleValue(), PickleValue(true), PickleValue(PickleDict())}, false});
  return dict;
}

void touch(const at::Tensor& tensor) {
  tensor.clone();
}

void touch(const PickleValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) touch(*tensor);
  if (const auto* list = std::get_if<PickleList>(&value))
    for (const auto& item : list->items) touch(item);
  if (const auto* dict = std::get_if<PickleDict>(&value))
    for (const auto& [key, item] : dict->items) touch(item);
}

}  // namespace tg::fuzz
