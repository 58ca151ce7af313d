#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace tg {

// Documents in rows of tokens [B, T]: attention is restricted to a token's own document. No
// document spans two rows.
struct Documents {
  // [count + 1] int32: index of each document's first token among all B·T (cu_seqlens), then B·T.
  // Documents may be empty.
  at::Tensor offsets;
  std::int64_t longest;  // tokens of the longest document
  at::Tensor
      ends;  // [B, T] int32: for each token, the position in its row at which its document ends

  // What attention computes from these, once for all layers of a pass; copies share it. Each pass
  // makes Documents of its own, so that a captured pass computes it from the replay's offsets.
  struct Derived {
    std::map<std::int64_t, at::Tensor> visible_until, visible_from;  // by window
    std::shared_ptr<const Documents> paired;                         // paired_documents()
  };
  std::shared_ptr<Derived> derived = std::make_shared<Derived>();
};

// Makes Documents on `device`, without synchronizing with it. starts [B, T] bool, on the CPU:
// whether a document begins at the token; the first token of a row always begins one.
Documents documents_in(const at::Tensor& starts, at::Device device);

// Makes Documents from known `offsets`, on their device and capturable in a CUDA graph.
// Precondition: a document begins with each row.
Documents documents_at(const at::Tensor& offsets, std::int64_t rows, std::int64_t seq_len,
                       std::int64_t longest);

// Returns [B, T] bool: whether a document begins at the token; true at the start of each row.
at::Tensor document_begins(const at::Tensor& ends_bt);

// Returns [B, T] int32 for keys k [B, T, KV, hd]: the query position in the row at which a key's
// visibility ends: the end of its document or, with a window, `window` positions after the key,
// whichever is first. Non-decreasing along a row. Undefined without documents and window.
at::Tensor visible_until(const at::Tensor& k_bthd, const std::optional<Documents>& documents,
                         std::int64_t window);
// Returns [B, T] int32: the position in the row of the first key that a query sees. Non-decreasing
// along a row. Undefined where visible_until() is.
at::Tensor visible_from(const at::Tensor& k_bthd, const std::optional<Documents>& documents,
                        std::int64_t window);
// Returns the attention mask [B, 1, T, T] bool (queries, keys): true if the key is hidden.
at::Tensor hidden_keys(const at::Tensor& visible_until);

}  // namespace tg
