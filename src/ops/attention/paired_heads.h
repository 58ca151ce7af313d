#pragma once
// Paired heads: attention of H heads over T tokens as that of H/2 heads over 2T elements. Element
// 2t holds the first half of token t's heads, 2t + 1 the second half, so that heads h and h + H/2
// share a softmax and see each other. In memory nothing changes.
#include <ATen/ATen.h>

#include "ops/attention/documents.h"

namespace tg {

// x [B, T, H, hd] as [B, 2T, H/2, hd]; H is even. Copies x only if it is not contiguous.
at::Tensor paired_heads(const at::Tensor& x_bthd);
// The inverse: x [B, 2T, H/2, hd] as [B, T, H, hd].
at::Tensor unpaired_heads(const at::Tensor& x_behd);
// The documents of the elements: twice as long.
Documents paired_documents(const Documents& documents);

}  // namespace tg
