#include "train/calibration.h"

#include <algorithm>

#include "base/elapsed.h"
#include "base/log.h"
#include "config/derived.h"
#include "train/peer_waits.h"

namespace tg {

Hessians calibrate(const Settings& settings, const Machine& machine, Communicator& communicator,
                   ModelParts& weights, const TokenSource& train,
                   const std::function<void(const RunEvent&)>& emit) {
  const auto length = settings.run.train_seq_len.last();
  const auto tokens = settings.run.train_batch_tokens.last() / kMicroBatches;
  const CalibrationOptions options{.batches = settings.gptq.gptq_calibration_batches,
                                   .rows_per_batch = std::max<std::int64_t>(1, tokens / length),
                                   .measure_memory = measures_memory(settings),
                                   .record_quirks = settings.runtime.record_quirks};
  const auto began = Clock::now();
  CalibrationRows rows(train, length, communicator.rank(), communicator.world_size());
  auto hessians = collect_hessians(weights.model, weights.parameters, rows, options, communicator);
  wait_for_device(communicator, machine.device);
  if (const auto rows_once = rows.rows_until_repeated(); rows_once > 0) {
    log_warn(
        "{}: too short for GPTQ_CALIBRATION_BATCHES={} (expected {} rows of {} tokens, found {}); "
        "rows are read again and again: calibrate on more data",
        train.pattern(), options.batches, options.batches * options.rows_per_batch, length,
        rows_once);
  }
  const auto ranks = options.record_quirks ? 1 : communicator.world_size();
  emit(HessiansCollected{.count = std::ssize(hessians),
                         .batches = options.batches,
                         .tokens = options.batches * options.rows_per_batch * length * ranks,
                         .ms = milliseconds_since(began)});
  return hessians;
}

}  // namespace tg
