#pragma once
#include <ATen/ATen.h>

#include <optional>

namespace tg {

// Documents in rows of tokens [B, T]: attention sees its own document alone. No document spans two
// rows.
struct Documents {
  // [count + 1] int32: the first token of each, of all B·T, and B·T. There may be empty ones.
  at::Tensor offsets;
  std::int64_t longest;  // the most tokens of one
  at::Tensor ends;       // [B, T] int32: of a token, where in its row its document ends
};

// starts [B, T] bool, on the CPU: whether a document begins with the token; one does with each row.
// → on `device`, for which nothing waits.
Documents documents_in(const at::Tensor& starts, at::Device device);

// documents_in() for known `offsets`, on their device, by work that can be captured: a document
// begins with each of B rows of T.
Documents documents_at(const at::Tensor& offsets, std::int64_t rows, std::int64_t seq_len,
                       std::int64_t longest);

// [B, T] int32 for keys k [B, T, KV, hd]: before which position of the row queries see a key: the
// end of its document or, with a window, `window` tokens from it on, whichever comes first. Rises
// along a row. Undefined without documents and window: up to the row's end.
at::Tensor visible_until(const at::Tensor& k_bthd, const std::optional<Documents>& documents,
                         std::int64_t window);
// [B, 1, T, T] bool: which queries do not see which keys.
at::Tensor hidden_keys(const at::Tensor& visible_until);

}  // namespace tg
