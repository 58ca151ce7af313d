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
#include "eval/score.h"
#include "model/gpt.h"
#include "ops/loss/byte_count.h"

namespace tg {

// A model's loss of one batch after another, without gradients. Batches of the first one's shape
// are replayed with `graphs`, see CapturedGraph; others run eagerly.
class BatchLoss {
 public:
  BatchLoss(at::Device device, bool graphs);

  // → mean over the batch [] fp32, valid until any graph is replayed. `model` must outlive this.
  at::Tensor operator()(const Gpt& model, const DeviceBatch& batch);

 private:
  // Makes room for batches like this one.
  void hold(const DeviceBatch& batch);

  const Gpt* model_ = nullptr;
  std::int64_t stage_ = 0;
  DeviceBatch batch_;  // where the captured graph reads it
  at::Tensor loss_;
  CapturedGraph pass_;
};

// The sums so far of the batches that this rank has scored.
struct ValidationProgress {
  std::int64_t batch = 0, batches = 0;  // batch from 1
  double mean_loss = 0, predictions = 0;
};
using OnValidationProgress = std::function<void(const ValidationProgress&)>;

// LOADER_ORDER decides the split's size and the place of each batch: `strided` reads VAL_BATCH_SIZE
// tokens at a time from the first shard on, VAL_TOKENS in all; the others cut the whole split into
// sequences. Batches are read by the same pipeline as training's, with
// VAL_PREFETCH, VAL_PREFETCH_QUEUE and VAL_COPY_STREAM; bytes are counted by its reader or, with
// VAL_BYTECOUNT_DEVICE and where pairs of tokens tell them, on the device. With
// GRAD_ACCUM_STEPS=auto (measures_memory) a batch has at most as many sequences as fit in the GPU's
// memory. With DOCUMENT_ATTENTION segments begin as in training, but with a limit of the sequences'
// length; in the documents order a batch is one row, on any number of ranks the same one, in which
// attention looks back over the sequences' ends; in the aligned order each sequence is a row.
class Validation {
 public:
  // Reads all tokens that any rank will score, and their bytes in a sidecar, so that a bad one is
  // found before training. Throws what reading the tokens and check_sidecar() throw. Without
  // `bytes`, or with ids that may hide spaces, there is no bpb.
  Validation(const Settings& settings, std::shared_ptr<const TokenSource> tokens,
             std::optional<TextBytes> bytes, int bos_id, at::Device device,
             Communicator& communicator);

  const std::string& pattern() const { return tokens_->pattern(); }
  std::int64_t tokens() const { return predictions_; }  // predictions scored
  const std::optional<TextBytes>& bytes() const { return bytes_; }
  // The token that attention's segments begin with; none where it crosses documents.
  std::optional<std::int64_t> segments_bos() const;
  // How many tokens to predict are among ByteTable::unknown_ids and count 0 bytes. One that the
  // strided order scores again counts once.
  std::int64_t unknown_tokens() const { return unknown_tokens_; }
  // Scores sequences of `seq_len`, a part on each rank. Waits for the device at the end, and before
  // each call of `on_progress`: every VAL_PROGRESS_LOG_EVERY batches and after the last one, unless
  // that is 0. Collective: equal on every rank.
  // `nll` [places] fp32 on the device, which may be undefined, also receives every token's nll at
  // its place, if it has that place.
  Score score(Gpt& model, std::int64_t seq_len, const OnValidationProgress& on_progress = {},
              const at::Tensor& nll = {});

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
  std::map<std::int64_t, std::int64_t> fitting_rows_;  // by seq_len, where memory is measured
};

}  // namespace tg
