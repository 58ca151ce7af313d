#pragma once
#include "base/elapsed.h"
#include "config/settings.h"
#include "eval/chunk_training.h"
#include "eval/window_scorer.h"
#include "model/micro_step.h"

namespace tg {

struct TttOptions {
  WindowOptions windows;  // of TRAIN_SEQ_LEN
  TttConfig config;
  bool record_quirks = false;
  bool fake_quant = false;  // in the training passes; with record_quirks, after QAT
  bool scale_loss = false;  // in fp16
  EvalMode mode{};
};

// Legal test-time training: scores a chunk of the split with sliding windows, then trains the model
// on it with SGD, then scores the next one; so every token is scored before any update that used
// it, and no score depends on later tokens. Changes the parameters. Every rank scores its windows
// of a chunk and trains on its sequences; all run as many batches as the rank with the most.
class TestTimeTraining {
 public:
  // All references must outlive this.
  TestTimeTraining(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
                   const TttOptions& options, at::Device device, Communicator& communicator);

  void save_token_losses(at::Tensor nll) { scorer_.save_token_losses(std::move(nll)); }
  // Logs the reference implementation's ttt_ lines. Collective: the same score on every rank.
  Score run();

 private:
  void train_on(std::int64_t chunk);
  std::int64_t fitting_rows();
  void add_gradients(std::int64_t begin, std::int64_t rows);
  void log_chunk(std::int64_t chunk, const ScoreSums& own) const;

  Gpt& model_;
  const SplitTokens& tokens_;
  const TttOptions options_;
  Communicator& communicator_;
  const ChunkTraining training_;
  TttParameters parameters_;
  std::vector<std::vector<Window>> chunks_;
  WindowScorer scorer_;
  ScoreSums sums_;
  DeviceBatch batch_;  // [rows, T] of a whole chunk's batch, at one address
  const ForwardMode mode_;
  MicroStep micro_step_;
  std::int64_t rows_at_once_;  // of a batch
  Clock::time_point began_;
};

}  // namespace tg
