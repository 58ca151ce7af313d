#pragma once
#include <ATen/ATen.h>

namespace tg {

// Documents in rows of tokens [B, T]: attention sees those of the own one alone. None is in two
// rows.
struct Documents {
  at::Tensor offsets;    // [count + 1] int32: the first token of each, of all B·T, and B·T
  std::int64_t longest;  // tokens
  at::Tensor ends;       // [B, T] int32: of a token, where in its row its document ends

  at::Tensor mask() const;  // [B, 1, T, T] bool: which queries see which keys
};

// starts [B, T] bool: whether a document begins with the token; one does with each row. The host
// waits for their number.
Documents documents_in(const at::Tensor& starts);

}  // namespace tg
