#pragma once
#include <string>

#include "config/setting.h"

namespace tg {

// Its own flags.
struct EvalOptions {
  bool audit = false;
  bool baselines = false;
  std::string adapt, hellaswag, lambada, documents, state_dir;

  bool tasks() const { return !hellaswag.empty() || !lambada.empty(); }

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("audit", s.audit, anything, role::option,
         "compare the bytes that val_bpb counts with those of the decoded text; exit 65 if they "
         "differ");
    line("baselines", s.baselines, anything, role::option,
         "also print the val_bpb of byte and token unigrams and of a token bigram, from the "
         "training shards");
    line("adapt", s.adapt, anything, role::option,
         "lora: also score the documents as they are, and again while low-rank adapters learn from "
         "each document's tokens once these are scored");
    line("documents", s.documents, anything, role::option.path(),
         "file to write: of each score a line of JSON for each document of the split");
    line("hellaswag", s.hellaswag, anything, role::option.path(),
         "HellaSwag's JSON lines (ctx, endings, label): which ending is the most likely");
    line("lambada", s.lambada, anything, role::option.path(),
         "LAMBADA's JSON lines (text), as OpenAI published them: predict the last word");
    line("state_dir", s.state_dir, anything, role::option.path(),
         "folder where phased test-time training keeps its state while it runs, and after a stop; "
         "empty: beside MODEL");
  }
};

// `train_gpt eval --init-from MODEL [--SETTING VALUE]...`: logs every score of a trained model.
// Each rank of several calls it. Errors: those of parse_model_command and join_ranks; those of the
// model's file (config, where it does not fit the settings), the data and the tokenizer; bad_data
// (the audit's counts differ); of test-time training those of TttStateFiles, and stopped.
void eval_command(int argc, const char* const* argv);

}  // namespace tg
