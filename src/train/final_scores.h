#pragma once
// What a run is judged by: the quantised artifact, and the scores of the weights read back from it.
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "eval/split_tokens.h"
#include "train/machine.h"
#include "train/report.h"
#include "train/run_parts.h"

namespace tg {

class FinalScores {
 public:
  // All references must outlive this.
  FinalScores(const Settings& settings, const Machine& machine, Communicator& communicator,
              RunParts& parts, Report& report, const std::string& output_dir);

  // Writes ARTIFACT to OUTPUT_DIR, sets the parameters to what the file holds, and scores them:
  // whole sequences, the sliding windows of EVAL_STRIDE, test-time training, which changes them
  // further. With ARTIFACT=none it scores the parameters as they are. `fake_quant`: QAT has begun.
  // Collective. Errors: cannot_create, io; bad_data (a file that is not as it was written).
  void run(bool fake_quant);

 private:
  void write_artifact(const std::string& path);
  void score_sequences();
  void score_windows(const SplitTokens& tokens, const DeviceByteTable* bytes, std::int64_t stride,
                     const std::string& suffix);
  void train_and_score(const SplitTokens& tokens, const DeviceByteTable* bytes, bool fake_quant);
  // Emits `score`'s result as PREFIX_NAME.
  template <class ScoreIt>
  void emit_score(const std::string& name, std::int64_t stride, ScoreIt score);

  const Settings& settings_;
  const Machine& machine_;
  Communicator& communicator_;
  RunParts& parts_;
  Report& report_;
  const std::string output_dir_;
};

}  // namespace tg
