#pragma once
#include <string>

#include "config/limits.h"

namespace tg {

// Its own flags.
struct EvalOptions {
  bool audit = false;
  bool baselines = false;
  std::string hellaswag, lambada;

  bool tasks() const { return !hellaswag.empty() || !lambada.empty(); }

  template <class V>
  void visit(V&& v) {
    v("audit", audit, anything,
      "compare the bytes that val_bpb counts with those of the decoded text; exit 65 if they "
      "differ");
    v("baselines", baselines, anything,
      "also print the val_bpb of byte and token unigrams and of a token bigram, from the training "
      "shards");
    v("hellaswag", hellaswag, anything,
      "HellaSwag's JSON lines (ctx, endings, label): which ending is the likeliest");
    v("lambada", lambada, anything,
      "LAMBADA's JSON lines (text), as OpenAI published them: predict the last word");
  }
};

// `train_gpt eval --init-from MODEL [--SETTING VALUE]...`: logs every score of a trained model.
// Each rank of several calls it. Errors: those of parse_model_command and join_ranks; those of the
// model's file (config, where it does not fit the settings), the data and the tokenizer; bad_data
// (the audit's counts differ).
void eval_command(int argc, const char* const* argv);

}  // namespace tg
