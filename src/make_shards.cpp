// make_shards: converts text files, standard input or files of token ids to token shards, with a
// training and a validation split.
#include <cxxopts.hpp>
#include <iostream>
#include <string>

#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "config/flags.h"
#include "data/baselines.h"
#include "data/sharding.h"
#include "data/token_ids.h"

namespace {

using tg::ExitCode;

// The program's flags; parsing stores their values in `to`.
cxxopts::Options declare_options(tg::ShardingOptions& to) {
  cxxopts::Options options(
      "make_shards",
      "Tokenizes text into shards: BOS before each document (see --document-start), no EOS.\n"
      "Each FILE is UTF-8 text, also packed as .gz, .zst or .xz; '-' is "
      "standard input. In a FILE.jsonl or FILE.json each line is an object "
      "whose \"text\" is a document; FILE.json may be an array of such objects; in a "
      "FILE.parquet each string of the column \"text\" is one. A "
      "folder stands for all its .txt, .jsonl, .json and .parquet files, subfolders included, "
      "sorted by path.\nWith --from-tokens each FILE holds token ids instead; files with "
      "the word val in their names are for validation.\n");
  options.positional_help("FILE...").custom_help(
      "--tokenizer FILE --out DIR [OPTION...] FILE...|-\n  make_shards --from-tokens "
      "--out DIR [OPTION...]");
  const auto text = [](const char* value) {
    return cxxopts::value<std::string>()->default_value(value);
  };
  using cxxopts::value;
  auto add = options.add_options();
  add("tokenizer",
      "SentencePiece model, tokenizer.json of a byte-level BPE, GPT-2's vocab.bpe or a .tiktoken "
      "table",
      value(to.tokenizer_path), "FILE");
  add("out", "folder for the shards, created if missing", value(to.out_dir), "DIR");
  add("shard-tokens", "tokens of a shard, at most 2147483647",
      value(to.shard_tokens)->default_value("100000000"), "N");
  add("val-fraction",
      "fraction of the documents for validation, spread evenly; 0: no validation split",
      value(to.val_fraction)->default_value("0.05"), "F");
  add("val-documents", "the first N documents are for validation, instead of a fraction",
      value(to.val_documents)->default_value("0"), "N");
  add("document-separator",
      "a document is a file, ends at an empty line, or is a line: file|blank-line|line",
      text("file"), "KIND");
  add("text-key", "key of the text in the objects of JSON, column of Parquet",
      value(to.text_key)->default_value("text"), "KEY");
  add("shuffle",
      "write the documents of each split in a random order, which SEED (0 or more) determines",
      value(to.shuffle_seed), "SEED");
  add("threads", "tokenizing threads; 0: one per available core; does not change the result",
      value(to.threads)->default_value("0"), "N");
  add("name-prefix", "shards are PREFIX_train_000000.bin, ...; train_gpt's SHARD_PREFIX",
      value(to.name_prefix)->default_value("fineweb"), "PREFIX");
  add("replace-invalid",
      "replace bytes that are not UTF-8, and lone surrogates in JSON, by U+FFFD instead of "
      "stopping",
      value(to.replace_invalid));
  add("force", "replace shards that are in DIR already", value(to.force));
  add("byte-sidecar",
      "also write PREFIX_val_bytes_000000.bin, ..., the number of text bytes of each token of the "
      "validation split, from which train_gpt computes bits per byte",
      value(to.byte_sidecar));
  add("caseops",
      "write a capital as an operator before the small letter (train_gpt's CASEOPS_ENABLED=1); the "
      "tokenizer has U+E001 to U+E004 as pieces",
      value(to.caseops));
  add("own-merges", "the vocab.bpe has merges of its own, not GPT-2's 50000", value(to.own_merges));
  add("pattern",
      "how a .tiktoken table's tokenizer splits text into words: gpt2, cl100k (also Llama 3's), "
      "qwen2, o200k or a regular expression; needed unless the table is GPT-2's, cl100k_base or "
      "o200k_base",
      value(to.choices.pattern)->default_value(""), "PATTERN");
  add("document-start",
      "token before each document: auto (the tokenizer's BOS), none or the id of a special token",
      value(to.choices.document_start)->default_value("auto"), "ID");
  add("from-tokens",
      "FILE.npy is an array of integers, FILE.bin raw ids or a shard; without a name for "
      "validation, the last --val-fraction of each FILE is",
      value(to.from_tokens));
  add("dtype", "with --from-tokens: the type of raw ids: uint16|uint32|int64", text("uint16"),
      "TYPE");
  add("vocab-size",
      "with --from-tokens: ids are below N, above 65536 in shards of 32 bits; 0: the size of "
      "--tokenizer, without it 65536",
      value(to.vocab_size)->default_value("0"), "N");
  add("baselines", "at the end, score n-gram models on the validation split");
  add("h,help", "this text");
  add("files", "", value(to.files));
  options.parse_positional("files");
  return options;
}

tg::Separator parse_separator(const std::string& name) {
  if (name == "file") return tg::Separator::file;
  if (name == "blank-line") return tg::Separator::blank_line;
  if (name == "line") return tg::Separator::line;
  tg::fail(ExitCode::usage, "--document-separator: expected file, blank-line or line, found {}",
           name);
}

tg::IntegerType parse_dtype(const std::string& name) {
  const auto type = tg::integer_type_named(name);
  REQUIRE(type, ExitCode::usage, "--dtype: expected uint16, uint32 or int64, found {}", name);
  return *type;
}

// Throws Error(usage) for options of text with --from-tokens, and for options of tokens without.
void check_kind(const cxxopts::ParseResult& given, bool from_tokens) {
  const std::vector<const char*> text_options = {
      "document-separator", "val-documents", "shuffle",
      "replace-invalid",    "byte-sidecar",  "document-start"};
  const std::vector<const char*> token_options = {"vocab-size", "dtype"};
  for (const char* other : from_tokens ? text_options : token_options) {
    REQUIRE(given.count(other) == 0, ExitCode::usage, "--{} is for {}; see make_shards --help",
            other, from_tokens ? "text, not for --from-tokens" : "--from-tokens");
  }
}

// Checks the flags, whose values parsing stored, and reads those that are no values yet.
void complete_options(const cxxopts::ParseResult& given, tg::ShardingOptions& options) {
  const bool from_tokens = options.from_tokens;
  check_kind(given, from_tokens);
  for (const char* needed : {"tokenizer", "out", "files"}) {
    const bool optional = from_tokens && std::string(needed) == "tokenizer";
    REQUIRE(optional || given.count(needed) > 0, ExitCode::usage,
            "{} is missing; see make_shards --help",
            std::string(needed) == "files" ? "FILE (or - for standard input)"
                                           : "--" + std::string(needed));
  }
  options.token_type = parse_dtype(given["dtype"].as<std::string>());
  options.separator = parse_separator(given["document-separator"].as<std::string>());
  REQUIRE(options.shard_tokens >= 1 && options.shard_tokens <= 2147483647, ExitCode::usage,
          "--shard-tokens: expected 1 to 2147483647, found {}", options.shard_tokens);
  REQUIRE(options.val_fraction >= 0 && options.val_fraction < 1, ExitCode::usage,
          "--val-fraction: expected at least 0 and below 1, found {}", options.val_fraction);
  REQUIRE(options.val_documents >= 0, ExitCode::usage,
          "--val-documents: expected at least 0, found {}", options.val_documents);
  REQUIRE(options.vocab_size >= 0 && options.vocab_size <= tg::kMaxPieces, ExitCode::usage,
          "--vocab-size: expected 0 to {}, found {}", tg::kMaxPieces, options.vocab_size);
  REQUIRE(options.threads >= 0 && options.threads <= 1024, ExitCode::usage,
          "--threads: expected 0 to 1024, found {}", options.threads);
  if (options.threads == 0) options.threads = tg::available_cores();
}

void print_split(const char* name, const tg::ShardingReport::Split& split, bool from_tokens) {
  if (from_tokens) {
    tg::log_info("make_shards {}: tokens:{} shards:{}", name, split.tokens, split.shards);
    return;
  }
  const double per_token =
      split.tokens == 0 ? 0
                        : static_cast<double>(split.text_bytes) / static_cast<double>(split.tokens);
  tg::log_info("make_shards {}: documents:{} tokens:{} bytes_per_token:{:.3f} shards:{}", name,
               split.documents, split.tokens, per_token, split.shards);
}

void print_baselines(const tg::ShardingOptions& options) {
  const tg::Tokenizer tokenizer(options.tokenizer_path, /*vocab_size=*/0, options.caseops,
                                options.choices);
  const auto& prefix = options.name_prefix;
  const tg::ShardSet train(options.out_dir, "train", tokenizer.pieces(), prefix);
  const tg::ShardSet val(options.out_dir, "val", tokenizer.pieces(), prefix);
  tg::log_baselines(tg::text_baselines(train, val, tokenizer));
}

void run(int argc, char** argv) {
  tg::ShardingOptions options;
  cxxopts::Options declared = declare_options(options);
  const auto given = tg::parse_flags(declared, argc, argv);
  if (given.count("help") > 0) {
    std::cout << declared.help();
    return;
  }
  complete_options(given, options);
  const bool baselines = given.count("baselines") > 0;
  const bool no_val = options.val_documents == 0 && options.val_fraction == 0;
  REQUIRE(!baselines || (!options.tokenizer_path.empty() && !no_val), ExitCode::usage,
          "--baselines needs a tokenizer and a validation split");
  REQUIRE(!options.byte_sidecar || !no_val, ExitCode::usage,
          "--byte-sidecar needs a validation split");
  const tg::ShardingReport report = tg::make_shards(options);
  print_split("train", report.train, options.from_tokens);
  print_split("val", report.val, options.from_tokens);
  if (baselines) print_baselines(options);
}

}  // namespace

int main(int argc, char** argv) {
  tg::explain_errors_with([](const std::exception& error) -> std::optional<tg::Error> {
    if (tg::out_of_memory_line(error).empty()) return {};
    return tg::Error(ExitCode::memory,
                     "out of memory; shorter documents or fewer --threads need less");
  });
  return tg::run_program([&] { run(argc, argv); });
}
