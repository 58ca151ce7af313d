#pragma once
#include <ATen/ATen.h>

namespace tg {

// [B, T] bool: whether a document begins with the token, as one does with each row.
// ends [B, T] int32: of a token, where in its row its document ends.
at::Tensor document_begins(const at::Tensor& ends_bt);

}  // namespace tg
