#include "ops/attention/paired_heads.h"

namespace tg {

at::Tensor paired_heads(const at::Tensor& x_bthd) {
  return x_bthd.reshape({x_bthd.size(0), 2 * x_bthd.size(1), x_bthd.size(2) / 2, x_bthd.size(3)});
}

at::Tensor unpaired_heads(const at::Tensor& x_behd) {
  return x_behd.reshape({x_behd.size(0), x_behd.size(1) / 2, 2 * x_behd.size(2), x_behd.size(3)});
}

Documents paired_documents(const Documents& documents) {
  auto& paired = documents.derived->paired;
  if (paired == nullptr) {
    const auto ends = (documents.ends * 2).unsqueeze(-1).expand({-1, -1, 2}).flatten(1);
    paired = std::make_shared<const Documents>(Documents{
        .offsets = documents.offsets * 2, .longest = 2 * documents.longest, .ends = ends});
  }
  return *paired;
}

}  // namespace tg
