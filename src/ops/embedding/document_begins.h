#pragma once
#include <ATen/ATen.h>

namespace tg {

// Returns [B, T] bool: whether a document begins at the token; true at the start of each row.
// `ends` [B, T] int32: for each token, the position in its row at which its document ends.
at::Tensor document_begins(const at::Tensor& ends_bt);

}  // namespace tg
