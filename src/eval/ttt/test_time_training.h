#pragma once
#include "config/settings.h"
#include "eval/scores/window_scorer.h"
#include "eval/ttt/chunk_training.h"
#include "model/micro_step.h"

namespace tg {

struct TttOptions {
  WindowOptions windows;  // windows of TRAIN_SEQ_LEN
  TttConfig config;
  bool record_quirks = false;
  bool fake_quant = false;  // in the training passes; with record_quirks, after QAT
  bool scale_loss = false;  // loss scaling, in fp16
  EvalMode mode{};
};

// Legal test-time training: scores a chunk of the split with sliding windows, trains the model on
// it with SGD, then scores the next chunk. So every token is scored before any update that used it,
// and no score depends on later tokens. Changes the parameters. Each rank scores its windows of a
// chunk and trains on its sequences; all run as many batches as the rank with the most.
class TestTimeTraining {
 public:
  // All references must outlive this object.
  TestTimeTraining(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
                   const TttOptions& options, at::Device device, Communicator& communicator);

  void save_token_losses(at::Tensor nll) { scorer_.save_token_losses(std::move(nll)); }
  // Logs the reference implementation's ttt_ lines. Collective: all ranks return the same score.
  Score run();

 private:
  void train_on(std::int64_t chunk);
  std::int64_t fitting_rows();
  void add_gradients(std::int64_t begin, std::int64_t rows);

  Gpt& model_;
  const SplitTokens& tokens_;
  const TttOptions options_;
  Communicator& communicator_;
  const ChunkTraining training_;
  TttParameters parameters_;
  std::vector<std::vector<Window>> chunks_;
  WindowScorer scorer_;
  ScoreSums sums_;
  DeviceBatch batch_;  // [rows, T], a full batch, at a fixed address
  const ForwardMode mode_;
  MicroStep micro_step_;
  std::int64_t rows_at_once_;  // rows per pass
};

}  // namespace tg
