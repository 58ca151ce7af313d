#pragma once
// Mean loss and bits per byte over the validation split.
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/feeder.h"
#include "data/validation.h"
#include "device/captured_graph.h"
#include "eval/scores/score.h"
#include "model/gpt.h"
#include "ops/loss/byte_count.h"

namespace tg {

// Computes a model's loss for a series of batches, without gradients. With `graphs`, batches of the
// first batch's shape replay a captured graph, see CapturedGraph; others run eagerly. With a
// `mask`, a table of masked_softcap_nll() on the device, tokens that it names are out of the
// softmax.
class BatchLoss {
 public:
  BatchLoss(at::Device device, bool graphs, const at::Tensor& mask = {});

  struct Losses {
    at::Tensor loss;        // fp32
    at::Tensor unmasked{};  // without the mask; undefined if there is none
  };
  // Returns means over the batch [], valid until any graph is replayed. `model` must outlive this
  // object.
  Losses operator()(const Gpt& model, const DeviceBatch& batch);
  // Returns the same without a graph.
  Losses eager(const Gpt& model, const DeviceBatch& batch) const;
  // Frees the captured graph, which keeps the memory pool of all graphs; it is captured again.
  void release_graph();
  // Returns the losses of the targets [B, T].
  Losses of_tokens(const Gpt& model, const DeviceBatch& batch) const;

  bool masks() const { return mask_.defined(); }

 private:
  // Allocates static inputs for batches like this one.
  void hold(const DeviceBatch& batch);

  const at::Tensor mask_;
  const Gpt* model_ = nullptr;
  std::int64_t stage_ = 0;
  DeviceBatch batch_;  // static input of the captured graph
  Losses losses_;
  CapturedGraph pass_;
};

// Sums over the batches that this rank has scored so far.
struct ValidationProgress {
  std::int64_t batch = 0, batches = 0;  // batch from 1
  double mean_loss = 0, predictions = 0;
};
using OnValidationProgress = std::function<void(const ValidationProgress&)>;

// Scores the validation split. LOADER_ORDER determines its size and the position of each batch:
// `strided` reads VAL_BATCH_SIZE tokens at a time from the first shard on, VAL_TOKENS in all; the
// others cut the whole split into sequences. Batches are read by the same pipeline as in training,
// with VAL_PREFETCH, VAL_PREFETCH_QUEUE and VAL_COPY_STREAM; bytes are counted by its reader or,
// with VAL_BYTECOUNT_DEVICE and if pairs of tokens determine them, on the device. With
// GRAD_ACCUM_STEPS=auto (measures_memory) a batch has at most as many sequences as fit in the GPU's
// memory. With DOCUMENT_ATTENTION segments begin as in training, but are limited to the length of
// the sequences; in the documents order a batch is one row, the same on any number of ranks, in
// which attention crosses the ends of sequences; in the aligned order each sequence is a row.
class Validation {
 public:
  // Reads all tokens that any rank will score, and their bytes in a sidecar, so that bad data is
  // found before training. Throws errors of the tokens and of check_sidecar(). Without `bytes`, or
  // with ids that may hide spaces, there is no bpb. `mask`: of BatchLoss.
  Validation(const Settings& settings, std::shared_ptr<const TokenSource> tokens,
             std::optional<TextBytes> bytes, int bos_id, at::Device device,
             Communicator& communicator, const at::Tensor& mask = {});

  const std::string& pattern() const { return tokens_->pattern(); }
  std::int64_t tokens() const { return predictions_; }  // number of scored predictions
  const std::optional<TextBytes>& bytes() const { return bytes_; }
  // The token that begins attention's segments; nullopt if attention crosses documents.
  std::optional<std::int64_t> segments_bos() const;
  // Number of targets that are among ByteTable::unknown_ids and count 0 bytes. A target that the
  // strided order scores twice counts once.
  std::int64_t unknown_tokens() const { return unknown_tokens_; }
  // Scores sequences of `seq_len`, divided over the ranks. Waits for the device at the end, and
  // before each call of `on_progress`: every VAL_PROGRESS_LOG_EVERY batches and after the last one,
  // unless that is 0. Also writes each token's nll to its index in `nll` [n] fp32 on the device, if
  // defined; indices beyond its end are skipped. Collective: all ranks return the same score.
  Score score(Gpt& model, std::int64_t seq_len, const OnValidationProgress& on_progress = {},
              const at::Tensor& nll = {});
  void release_graph() { batch_loss_.release_graph(); }

 private:
  std::int64_t batch_rows(std::int64_t seq_len) const;
  std::int64_t fitting_rows(const Gpt& model, std::int64_t seq_len);
  ValidationPlan plan(std::int64_t seq_len, std::int64_t at_once, int rank) const;
  std::int64_t read_all() const;
  BatchLayout layout(std::int64_t seq_len) const;

  const Settings& settings_;
  IoConfig io_;
  std::shared_ptr<const TokenSource> tokens_;
  std::optional<TextBytes> bytes_;
  std::optional<DeviceByteTable> device_bytes_;
  std::int64_t bos_id_;
  at::Device device_;
  Communicator& communicator_;
  BatchLoss batch_loss_;
  std::int64_t predictions_, unknown_tokens_;
  std::map<std::int64_t, std::int64_t> fitting_rows_;  // by seq_len, if memory is measured
};

}  // namespace tg
