#include "weights/artifact/artifact_payload.h"

#include <utility>

#include "base/error.h"
#include "files/atomic_file.h"
#include "weights/pickle/torch_file.h"
#include "weights/tensors/tensor_check.h"

namespace tg {

void ArtifactPayload::add(PickleDict& to, std::string name, const at::Tensor& tensor) {
  stats_.payload_bytes += tensor.nbytes();
  const auto stored = tensor.to(at::kCPU);
  REQUIRE(!first_nonfinite({{name, stored}}), ExitCode::internal,
          "{}: not finite as the artifact's {} (expected finite numbers, found NaN or infinity); "
          "no artifact was written",
          name, c10::toString(stored.scalar_type()));
  to.add(std::move(name), stored);
}

ArtifactStats write_packed(const PickleDict& value,
                           const std::function<std::string(std::string_view)>& compress,
                           const std::string& path, ArtifactStats stats, Lap lap) {
  stats.quantize_ms = milliseconds(lap());
  const std::string archive = torch_value_bytes(value);
  stats.torch_bytes = archive.size();
  stats.serialize_ms = milliseconds(lap());
  const std::string compressed = compress(archive);
  stats.file_bytes = compressed.size();
  stats.compress_ms = milliseconds(lap());
  write_file_atomically(path, compressed);
  stats.write_ms = milliseconds(lap());
  return stats;
}

}  // namespace tg
