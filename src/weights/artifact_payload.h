#pragma once
// What all writers of artifacts do with tensors, and with the value that holds them.
#include <functional>
#include <string>
#include <string_view>

#include "base/elapsed.h"
#include "weights/pickle_value.h"
#include "weights/write_artifact.h"

namespace tg {

// Tensors on the way into a dict of the artifact: on the CPU, counted, and finite in their dtype
// there.
class ArtifactPayload {
 public:
  explicit ArtifactPayload(ArtifactStats& stats) : stats_(stats) {}

  // Errors: internal (not finite).
  void add(PickleDict& to, std::string name, const at::Tensor& tensor);

 private:
  ArtifactStats& stats_;
};

// Writes the torch.save archive of `value`, compressed, atomically; `lap` began with the
// quantisation. Errors: cannot_create, io.
ArtifactStats write_packed(const PickleDict& value,
                           const std::function<std::string(std::string_view)>& compress,
                           const std::string& path, ArtifactStats stats, Lap lap);

}  // namespace tg
