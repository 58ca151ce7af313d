#pragma once
// Operations on tensors, and on the pickled value that holds them, that all writers of artifacts
// use.
#include <functional>
#include <string>
#include <string_view>

#include "base/elapsed.h"
#include "weights/artifact/write_artifact.h"
#include "weights/pickle/pickle_value.h"

namespace tg {

// Adds tensors to a dict of the artifact: moves them to the CPU, counts their bytes and checks that
// they are finite in their stored dtype.
class ArtifactPayload {
 public:
  explicit ArtifactPayload(ArtifactStats& stats) : stats_(stats) {}

  // Throws Error(internal) if the tensor is not finite.
  void add(PickleDict& to, std::string name, const at::Tensor& tensor);

 private:
  ArtifactStats& stats_;
};

// Writes the compressed torch.save archive of `value` atomically. `lap` was started at the
// beginning of quantization. Throws Error(cannot_create) and Error(io).
ArtifactStats write_packed(const PickleDict& value,
                           const std::function<std::string(std::string_view)>& compress,
                           const std::string& path, ArtifactStats stats, Lap lap);

}  // namespace tg
