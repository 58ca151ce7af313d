#include "commands/eval.h"

#include <csignal>

#include "base/error.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "data/baselines.h"
#include "data/splits.h"
#include "eval/byte_audit.h"
#include "train/artifact_files.h"
#include "train/final_scores.h"
#include "train/log_sink.h"
#include "train/run_parts.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt eval: prints every score of a trained model.\n"
    "\n"
    "  train_gpt eval --init-from FILE [--audit] [--baselines] [--SETTING VALUE]...\n"
    "\n"
    "FILE is a model (.safetensors, .pt) or an artifact (.int6.ptz, .int8.ptz). The settings are\n"
    "those of the config.json beside it, unless given here. Scored on the validation split of\n"
    "DATA_PATH: whole sequences of EVAL_SEQ_LEN; sliding windows where EVAL_STRIDE is not 0; with\n"
    "TTT_ENABLED=1 test-time training. Runs under mpirun, torchrun and srun as training does.\n"
    "\n";

struct EvalOptions {
  bool audit = false;
  bool baselines = false;

  template <class V>
  void visit(V&& v) {
    v("audit", audit, anything,
      "compare the bytes that val_bpb counts with those of the decoded text; exit 65 if they "
      "differ");
    v("baselines", baselines, anything,
      "also print the val_bpb of byte and token unigrams and of a token bigram, from the training "
      "shards");
  }
};

void audit(const Settings& settings, const TokenSource& tokens, std::int64_t predictions) {
  const auto& path = settings.data.tokenizer_path;
  REQUIRE(!path.empty(), ExitCode::usage,
          "--audit needs a tokenizer (expected a SentencePiece model, found an empty "
          "TOKENIZER_PATH)");
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  const Tokenizer tokenizer(path, vocab);
  const auto found = audit_bytes(tokens, predictions, tokenizer, make_byte_table(tokenizer, vocab));
  log_info("audit documents:{} tokens:{} counted_bytes:{} text_bytes:{}", found.documents,
           found.tokens, found.counted, found.decoded);
  REQUIRE(found.counted == found.decoded, ExitCode::bad_data,
          "{}: val_bpb counts {} bytes in whole documents, their text has {}; its pieces do not "
          "give the text's bytes (a normalisation other than identity, unknown characters), and "
          "val_bpb cannot be compared",
          path, found.counted, found.decoded);
}

void print_baselines(const Settings& settings) {
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  REQUIRE(!settings.data.tokenizer_path.empty(), ExitCode::usage,
          "--baselines needs a tokenizer (expected a SentencePiece model, found an empty "
          "TOKENIZER_PATH)");
  const Tokenizer tokenizer(settings.data.tokenizer_path, vocab);
  const ShardSet train(settings.data.data_path, "train", vocab);
  const ShardSet val(settings.data.data_path, "val", vocab);
  log_baselines(text_baselines(train, val, tokenizer));
}

// Whether test-time training rounds the weights as the run's did: QAT, once on, stays on with
// RECORD_QUIRKS.
bool trains_with_qat(const Settings& settings, int rank) {
  if (!settings.ttt.ttt_enabled || !settings.runtime.record_quirks) return false;
  const auto qat = ended_with_qat(settings);
  if (!qat && rank == 0) {
    log_warn(
        "{}: no such file; it would say whether QAT was on at the end of the run, as "
        "RECORD_QUIRKS=1 keeps it in test-time training; assuming that it was off",
        file_beside(settings.runtime.init_from, "metrics.jsonl"));
  }
  return qat.value_or(false);
}

}  // namespace

std::vector<Entry> eval_options() {
  static EvalOptions defaults;
  return entries_of(defaults);
}

void eval_command(int argc, const char* const* argv) {
  EvalOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& settings = parsed->settings;
  settings.runtime.artifact = artifact_of(settings.runtime.init_from);
  std::signal(SIGPIPE, SIG_IGN);
  const auto joined = join_ranks(settings, parsed->origins, SettingsUse::scoring);
  const auto& machine = joined.machine;
  Communicator communicator(joined.rendezvous, joined.launch, machine.device,
                            settings.runtime.comm_timeout_s);
  const LogSink log(settings, machine, joined.launch.world_size);
  const auto emit = [&](const RunEvent& event) {
    if (communicator.rank() == 0) std::visit(log, event);
  };
  if (joined.launch.world_size > 1) emit(joined.event());

  const auto tokens = open_validation(settings.data, static_cast<int>(settings.model.vocab_size));
  auto validation = make_validation(settings, tokens, machine, communicator);
  const bool trains = settings.ttt.ttt_enabled;
  const bool qat = trains_with_qat(settings, communicator.rank());
  ModelParts weights(settings, machine, communicator,
                     trains ? ModelUse::test_time_training : ModelUse::inference);
  FinalScores scores(settings, machine, communicator, weights, *tokens, validation, emit);
  scores.score_sequences();
  scores.score_windows();
  scores.train_and_score(qat);
  if (communicator.rank() != 0) return;
  if (options.baselines) print_baselines(settings);
  if (options.audit) audit(settings, *tokens, validation.tokens());
}

}  // namespace tg
