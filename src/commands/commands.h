#pragma once
// The commands, each with its own flags: NAME_command() is in commands/NAME.cpp.
#include <cstdint>
#include <string>

#include "config/setting.h"
#include "config/types/values.h"

namespace tg {

struct Settings;

// Runs `train_gpt [COMMAND] [ARGUMENT]...`; trains without a command. A command receives arguments
// like a program: argv[0] is its name. Throws Error(usage) for an unknown command, naming the
// nearest, and what the command throws.
void run_command(int argc, const char* const* argv);

// `train_gpt [train] [--config FILE]... [--SETTING VALUE]...`; --help and --version print and
// return. Every rank of a run calls it. Throws what the settings, the rendezvous and train() throw.
void train_command(int argc, const char* const* argv);

struct EvalOptions {
  bool audit = false;
  bool baselines = false;
  std::string adapt, hellaswag, lambada, documents, state_dir;

  bool tasks() const { return !hellaswag.empty() || !lambada.empty(); }

  static void visit(auto& s, const auto& line) {
    line(
        "audit", s.audit, anything, role::option,
        "compare val_bpb's byte counts with the bytes of the decoded text; exit 65 if they differ");
    line("baselines", s.baselines, anything, role::option,
         "also print the val_bpb of byte and token unigrams and of a token bigram, from the "
         "training shards");
    line("adapt", s.adapt, anything, role::option,
         "lora: also score each document without adaptation, and again with low-rank adapters that "
         "are trained on the document's tokens after these are scored");
    line("documents", s.documents, anything, role::option.path(),
         "file to write: a line of JSON for each document of the split and each score");
    line("hellaswag", s.hellaswag, anything, role::option.path(),
         "HellaSwag's JSON lines (ctx, endings, label): score the most likely ending");
    line("lambada", s.lambada, anything, role::option.path(),
         "LAMBADA's JSON lines (text), OpenAI's version: score the prediction of the last word");
    line("state_dir", s.state_dir, anything, role::option.path(),
         "folder of the state of phased test-time training, kept while it runs and after a stop; "
         "empty: beside MODEL");
  }
};

// `train_gpt eval --init-from MODEL [--SETTING VALUE]...`: logs every score of a trained model.
// Every rank calls it. Throws what parse_model_command, join_ranks and reading the model (config if
// it does not fit the settings), the data and the tokenizer throw; Error(bad_data) if the audit's
// counts differ; in test-time training what TttStateFiles throws, and stopped.
void eval_command(int argc, const char* const* argv);

struct QuantizeOptions {
  std::string out, calibrate;
  CountOrAuto bits{.automatic = true};

  static void visit(auto& s, const auto& line) {
    line("out", s.out, anything, role::option.path(), "the artifact's file");
    line("calibrate", s.calibrate, anything, role::option.path(),
         "quantise by GPTQ, with Hessians from this data: any DATA_PATH");
    line("bits", s.bits, within(2, 8), role::option,
         "with --calibrate: sets MATRIX_BITS and EMBED_BITS, and the clip thresholds that are "
         "optimal for so many bits; auto: the settings' values");
  }
};

// `train_gpt quantize --init-from MODEL --out FILE [--calibrate DATA [--bits N]] [--SETTING VALUE]
// ...`: writes the artifact of a raw model and logs its sizes. Throws what parse_model_command,
// join_alone and reading the model and the data throw; Error: usage (no --out, ARTIFACT=none, MODEL
// is an artifact, ARTIFACT=gptq and --calibrate one without the other); cannot_create, io.
void quantize_command(int argc, const char* const* argv);

struct SampleOptions {
  std::string prompt, stop;
  std::int64_t tokens = 200, samples = 1;
  bool stop_at_document_end = false;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  bool kv_cache = true;

  static void visit(auto& s, const auto& line) {
    line("prompt", s.prompt, anything, role::option, "text to continue; required, may be empty");
    line("tokens", s.tokens, within(1, 1 << 30), role::option, "tokens to sample");
    line("samples", s.samples, within(1, 1 << 30), role::option,
         "number of continuations, separated by a line ---: the first is sampled with SEED, the "
         "next with SEED+1 and so on");
    line("stop", s.stop, anything, role::option,
         "stop text: a continuation ends before it; empty: none");
    line("stop_at_document_end", s.stop_at_document_end, anything, role::option,
         "end a continuation at BOS, with which the model begins another document");
    line("temperature", s.temperature, at_least(0), role::option,
         "temperature of the softmax; 0: greedy decoding");
    line("top_k", s.top_k, at_least(0), role::option,
         "sample from the k most likely tokens; 0: from all");
    line("top_p", s.top_p, within(0, 1), role::option,
         "nucleus sampling: sample from the most likely tokens whose probabilities add up to p");
    line("kv_cache", s.kv_cache, anything, role::option,
         "KV cache; 0: recompute all tokens for each new token");
  }
};

// `train_gpt sample --init-from MODEL --prompt TEXT [--SETTING VALUE]...`: prints the prompt and
// the model's continuation, as it is drawn, and on standard error the tokens per second. Throws
// what parse_model_command, join_alone and reading the model throw; Error: usage (no prompt, one
// that the tokenizer cannot encode, no tokenizer or, for the end of a document, none with BOS);
// config (the tokenizer's size); io.
void sample_command(int argc, const char* const* argv);

// `train_gpt inspect [--quantization [--artifact FILE]] [--weights raw|ema] MODEL`: prints
// inspect_text. Throws Error: usage, io (standard output), and what inspect_text throws.
void inspect_command(int argc, const char* const* argv);

struct InspectOptions {
  bool quantization = false;  // prints quantization_text
  std::string artifact = {};  // with `quantization`: an artifact of the model
  WeightsChoice weights = WeightsChoice::automatic;
};

// Describes the computation of a pass, stage by stage: its layer calls, each with block, lanes,
// skip and attention, and the parameters by kind.
std::string plan_text(const Settings& settings);

// Describes a model's file or checkpoint: per tensor name, dtype, shape, elements, bytes, and the
// minimum, maximum and root mean square of its finite elements; totals by dtype; what `options`
// request; the settings in its run's config.json, if there is one. Throws what find_model() and
// reading the model throw; Error: usage (`quantization` of an artifact); missing_input (no
// config.json, with `artifact`).
std::string inspect_text(const std::string& path, const InspectOptions& options = {});

struct ExportOptions {
  std::string hf;

  static void visit(auto& s, const auto& line) {
    line("hf", s.hf, anything, role::option.path(),
         "folder to write for transformers; required, new or empty");
  }
};

// `train_gpt export --hf DIR --init-from MODEL [--SETTING VALUE]...`: writes the model to a folder
// for transformers, and a line on standard output. Throws what parse_model_command and reading the
// model throw; Error: usage (no DIR); cannot_create (DIR is not empty or cannot be created), io.
void export_command(int argc, const char* const* argv);

struct ReportOptions {
  std::string out, serve;
  bool stats = false;
  std::string against, below;

  static void visit(auto& s, const auto& line) {
    line("out", s.out, anything, role::option.path(), "the HTML file");
    line("serve", s.serve, anything, role::option,
         "port on 127.0.0.1 to serve the page at; none or 0: a free port");
    line("stats", s.stats, anything, role::option, "mean and deviation of the runs' last scores");
    line("against", s.against, anything, role::option.path(),
         "the runs that --stats compares them with");
    line("below", s.below, anything, role::option, "the bound that --stats tests means against");
  }
};

// `train_gpt report RUN... --out FILE`: writes one HTML file about the runs, and a line on standard
// output. A RUN is a run's folder, or a metrics.jsonl in it (metrics.1.jsonl of an earlier run).
// Throws Error: usage; missing_input; bad_data, naming file and line; cannot_create, io. `train_gpt
// report [RUN...] --serve [PORT]`: serves the page on the loopback interface until SIGINT or
// SIGTERM, following the runs, including runs that begin later in a folder of runs. Throws Error:
// usage; missing_input; unavailable if the port is in use. `train_gpt report --stats RUN...
// [--against RUN...] [--below LOSS]`: prints seed_study_text(), and throws what that throws.
void report_command(int argc, const char* const* argv);

// `train_gpt watch RUN`: shows the run in this terminal and refreshes until the run has ended, also
// while a stopped run may resume. Prints once if standard output is not a terminal. RUN is as in
// report_command(). Throws Error: usage; missing_input; bad_data, naming file and line; io.
void watch_command(int argc, const char* const* argv);

}  // namespace tg
