#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/escaped.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "config/derived.h"
#include "data/baselines.h"
#include "data/splits.h"
#include "data/vocabulary.h"
#include "eval/scores/byte_audit.h"
#include "eval/scores/document_scores.h"
#include "eval/tasks/task_files.h"
#include "eval/tasks/tasks.h"
#include "eval/ttt/phased_ttt_state.h"
#include "files/atomic_file.h"
#include "files/folder.h"
#include "model_io/model_path.h"
#include "run_log/log_sink.h"
#include "train/final_scores.h"
#include "train/run_parts.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt eval: prints every score of a trained model.\n"
    "\n"
    "  train_gpt eval --init-from MODEL [--audit] [--baselines] [--SETTING VALUE]...\n"
    "  train_gpt eval --init-from MODEL --adapt lora [--data-path TEXT] [--SETTING VALUE]...\n"
    "  train_gpt eval --init-from MODEL [--hellaswag FILE] [--lambada FILE] [--SETTING VALUE]...\n"
    "\n"
    "Scored on the validation split of DATA_PATH: whole sequences of EVAL_SEQ_LEN; sliding\n"
    "windows where EVAL_STRIDE is not 0; with TTT_ENABLED=1 test-time training, with\n"
    "PHASED_TTT_ENABLED=1 the phased kind, which saves its state between batches: stopped by a\n"
    "signal or killed, the same command goes on. Runs under mpirun, torchrun and srun as training\n"
    "does.\n"
    "\n"
    "With --adapt lora each document is also scored by itself, as it is and while adapters train\n"
    "on it (the phased kind without phases): the gain of adaptation on such text.\n"
    "\n"
    "With --documents FILE each score is also written document by document, as JSON lines.\n"
    "\n"
    "With --hellaswag or --lambada scored on those files alone: DATA_PATH is not read. The model\n"
    "reads at most EVAL_SEQ_LEN tokens of a row. docs/scores.md says what the numbers are.\n"
    "\n";

void require_tokenizer(const Settings& settings, std::string_view flag) {
  REQUIRE(!settings.data.tokenizer_path.empty(), ExitCode::usage,
          "{} needs a tokenizer (expected the path of one, found an empty TOKENIZER_PATH)", flag);
}

void audit(const Settings& settings, const TokenSplits& splits, std::int64_t predictions) {
  const auto& path = settings.data.tokenizer_path;
  require_tokenizer(settings, "--audit");
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  const auto tokenizer = make_tokenizer(settings.data, vocab);
  const auto& tokens = *splits.val;
  const auto& bytes = *splits.vocabulary.bytes;
  const auto found = audit_bytes(tokens, predictions, tokenizer, bytes);
  log_info("audit documents:{} tokens:{} counted_bytes:{} text_bytes:{}", found.documents,
           found.tokens, found.counted, found.text);
  if (found.spelled_spaces > 0) {
    log_info(
        "audit spelled_spaces:{} (written in the bytes of U+2581; had the text that character "
        "itself, it would be 3 bytes, and is counted as a space of 1)",
        found.spelled_spaces);
  }
  REQUIRE(found.documents > 0, ExitCode::bad_data,
          "the audit of {} found no document (expected a control piece of {} before each, such as "
          "BOS, found none); it needs shards of this tokenizer",
          tokens.pattern(), path);
  if (bytes.sidecar && !tokenizer.normalisation().empty()) {
    log_info("audit differ:{} (the sidecar counts the bytes of the text before {})", found.differ,
             tokenizer.normalisation());
    return;
  }
  REQUIRE(found.differ == 0, ExitCode::bad_data,
          "{}: in {} of {} documents val_bpb counts other bytes than their text has ({} and {} "
          "in all): unknown characters, or the shards are another tokenizer's; val_bpb cannot be "
          "compared",
          path, found.differ, found.documents, found.counted, found.text);
}

void log_truncated(const std::string& path, std::int64_t rows, std::int64_t context) {
  if (rows == 0) return;
  log_info("{}: {} rows are longer than EVAL_SEQ_LEN={}; their contexts lost the beginning", path,
           rows, context);
}

// Scores --hellaswag and --lambada.
void score_tasks(const EvalOptions& options, const Settings& settings, const Machine& machine,
                 Communicator& communicator) {
  const auto tokenizer = open_tokenizer(settings, "eval");
  std::vector<HellaSwagExample> hellaswag;
  std::vector<LambadaExample> lambada;
  if (!options.hellaswag.empty()) hellaswag = read_hellaswag(options.hellaswag);
  if (!options.lambada.empty()) lambada = read_lambada(options.lambada);
  ModelParts weights(settings, machine, communicator, ModelUse::inference);
  const auto context = eval_length(settings);
  Lap lap;
  if (!hellaswag.empty()) {
    const auto score = hellaswag_score(weights.model, tokenizer, hellaswag,
                                       {options.hellaswag, context}, machine.device, communicator);
    log_truncated(options.hellaswag, score.truncated, context);
    log_info(
        "hellaswag examples:{} acc:{:.4f} acc_norm:{:.4f} acc_bytes:{:.4f} acc_token:{:.4f} "
        "eval_time:{:.0f}ms",
        hellaswag.size(), score.acc, score.acc_norm, score.acc_bytes, score.acc_token,
        milliseconds(lap()));
  }
  if (!lambada.empty()) {
    const auto score = lambada_score(weights.model, tokenizer, lambada, {options.lambada, context},
                                     machine.device, communicator);
    log_truncated(options.lambada, score.truncated, context);
    log_info("lambada examples:{} acc:{:.4f} perplexity:{:.4f} eval_time:{:.0f}ms", lambada.size(),
             score.acc, score.perplexity, milliseconds(lap()));
  }
}

void print_baselines(const Settings& settings) {
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  require_tokenizer(settings, "--baselines");
  const auto& data = settings.data;
  const auto tokenizer = make_tokenizer(data, vocab);
  ShardSet train(data.data_path, "train", vocab, data.shard_prefix);
  ShardSet val(data.data_path, "val", vocab, data.shard_prefix);
  train.set_pieces(tokenizer.pieces());
  val.set_pieces(tokenizer.pieces());
  log_baselines(text_baselines(train, val, tokenizer));
}

// Applies --adapt: lora enables phased test-time training, without training the base model unless
// requested.
void apply_options(Settings& settings, const Origins& origins, const EvalOptions& options) {
  REQUIRE(options.adapt.empty() || options.adapt == "lora", ExitCode::usage,
          "--adapt: expected lora, found '{}'", escaped(options.adapt));
  if (options.adapt.empty()) return;
  REQUIRE(
      !settings.ttt.ttt_enabled, ExitCode::usage,
      "--adapt and TTT_ENABLED=1: each would train the weights that the other scores (expected one "
      "of them); give --ttt-enabled 0");
  settings.phased_ttt.phased_ttt_enabled = true;
  if (!is_given(origins, "phased_ttt_prefix_docs")) settings.phased_ttt.phased_ttt_prefix_docs = 0;
}

// Returns the function that writes --documents, again after each score. Collective. Throws Error:
// cannot_create, io.
auto documents_writer(const std::string& path, const TokenSplits& splits,
                      const Validation& validation, Communicator& communicator) {
  if (communicator.rank() == 0) write_file_atomically(path, "");
  return [path, &splits, &validation, &communicator, text = std::string()](
             const std::string& score, const at::Tensor& nll_of_rank) mutable {
    const auto nll = merge_ranks(nll_of_rank, communicator);
    if (communicator.rank() != 0) return;
    const auto& bytes = validation.bytes();
    const SplitTokens tokens(*splits.val, nll.numel(), 0, bytes ? &*bytes : nullptr, {}, at::kCPU);
    for (const auto& document : document_scores(tokens, splits.vocabulary.bos_id, nll))
      text += json_line(score, document) + "\n";
    write_file_atomically(path, text);
  };
}

// Returns the files of this rank's state of phased test-time training.
std::shared_ptr<const TttStateFiles> state_files(const ModelPath& model, const std::string& folder,
                                                 int rank) {
  if (!folder.empty()) create_folders(folder, "; give --state-dir another folder");
  const auto path = std::filesystem::weakly_canonical(model.path);
  const auto parent = folder.empty() ? path.parent_path() : std::filesystem::path(folder);
  const auto name = fmt::format("{}.ttt-rank-{}", path.filename().string(), rank);
  return std::make_shared<TttStateFiles>(parent / name);
}

}  // namespace

void eval_command(int argc, const char* const* argv) {
  EvalOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  REQUIRE(!options.tasks() || !(options.audit || options.baselines || !options.adapt.empty() ||
                                !options.documents.empty()),
          ExitCode::usage,
          "--hellaswag and --lambada score their files alone (expected no --audit, --baselines, "
          "--adapt and --documents); give these in a run of their own");
  auto& settings = parsed->settings;
  apply_options(settings, parsed->origins, options);
  REQUIRE(options.state_dir.empty() || settings.phased_ttt.phased_ttt_enabled, ExitCode::usage,
          "--state-dir is for phased test-time training (expected --adapt lora or "
          "PHASED_TTT_ENABLED=1)");
  std::signal(SIGPIPE, SIG_IGN);
  const auto use = options.tasks() ? SettingsUse::tasks : SettingsUse::scoring;
  const auto joined = join_ranks(settings, parsed->origins, use);
  const auto& machine = joined.machine;
  Communicator communicator(joined.rendezvous, joined.launch, machine.device,
                            settings.runtime.comm_timeout_s,
                            choose_sum_order(settings.runtime.deterministic, machine.device));
  resolve_bos_id(settings);
  const auto model = choose_model(settings, communicator);
  settings.runtime.artifact = model.artifact;
  LogSink log(settings, joined.launch.world_size);
  const auto emit = [&](const RunEvent& event) {
    if (communicator.rank() == 0) log(event);
  };
  if (joined.launch.world_size > 1) emit(joined.event());

  if (options.tasks()) return score_tasks(options, settings, machine, communicator);
  std::shared_ptr<const TttStateFiles> state;
  if (settings.phased_ttt.phased_ttt_enabled)
    state = state_files(model, options.state_dir, communicator.rank());

  const auto splits = open_validation(settings.data, static_cast<int>(settings.model.vocab_size),
                                      tokenization_options(machine, communicator));
  auto validation = make_validation(settings, splits, machine, communicator);
  const auto tokenizer = describe(splits.vocabulary, validation);
  if (tokenizer && communicator.rank() == 0) log_tokenizer(*tokenizer, settings);
  const bool trains = settings.ttt.ttt_enabled || settings.phased_ttt.phased_ttt_enabled;
  ModelParts weights(settings, machine, communicator,
                     trains ? ModelUse::test_time_training : ModelUse::inference);
  FinalScores scores(settings, machine, communicator, weights, *splits.val, validation, emit);
  if (!options.documents.empty())
    scores.on_token_losses(documents_writer(options.documents, splits, validation, communicator));
  scores.score_sequences();
  scores.score_windows();
  scores.train_and_score(weights.record.qat || settings.averaging.qat_enabled);
  const bool first = communicator.rank() == 0;
  if (first && options.baselines) print_baselines(settings);
  if (first && options.audit) audit(settings, splits, validation.tokens());
  if (!options.adapt.empty()) scores.score_documents();
  if (settings.phased_ttt.phased_ttt_enabled) {
    catch_stop_signals();
    scores.score_and_train_in_phases(std::move(state));
  }
}

}  // namespace tg
