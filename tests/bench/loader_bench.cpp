// usage: loader_bench SHARD_FOLDER [OPTION...]
//
// Measures how fast the tokens of the training shards reach a consumer that does nothing with them:
// with and without read-ahead, and in the documents and aligned orders with the segments of their
// rows; and how long next() blocks the consumer when the batch is ready. Ends with one line of
// JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cxxopts.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/program.h"
#include "config/flags.h"
#include "data/aligned_order.h"
#include "data/batch.h"
#include "data/documents_order.h"
#include "data/prefetch.h"
#include "data/shard.h"
#include "data/token_order.h"

namespace {

using Clock = std::chrono::steady_clock;
using tg::ExitCode;

constexpr int timed_calls = 1000;  // number of next() calls, each after a pause
constexpr std::chrono::milliseconds least_pause{2};

struct BenchOptions {
  std::string folder;
  std::int64_t micro_batch_tokens = 0, seq_len = 0, batches = 0, bos_id = 0;
  int vocab_size = 0;
  tg::PrefetchOptions prefetch;
};

struct Speed {
  double tokens_per_s = 0;
  std::uint64_t first_tokens = 0;  // sum of the first token of every batch: equal for all sources
};

struct NextTimes {
  double median_us = 0, p99_us = 0;
};

cxxopts::Options declare_options() {
  cxxopts::Options options("loader_bench",
                           "Times the loader on the training shards of a folder.\n");
  options.positional_help("SHARD_FOLDER").custom_help("[OPTION...]");
  const auto number = [](const char* initial) {
    return cxxopts::value<std::int64_t>()->default_value(initial);
  };
  auto add = options.add_options();
  add("micro-batch-tokens", "inputs of a micro-batch", number("98304"), "N");
  add("seq-len", "inputs of a sequence", number("2048"), "N");
  add("batches", "micro-batches on the clock, and as many before it", number("4000"), "N");
  add("vocab-size", "ids are below N; above 65536 they are 32 bits wide", number("65536"), "N");
  add("bos-id", "token that begins a document", number("1"), "ID");
  add("queue", "micro-batches read ahead", number("2"), "N");
  add("workers", "threads that read them", number("1"), "N");
  add("h,help", "this text");
  add("folder", "", cxxopts::value<std::string>());
  options.parse_positional("folder");
  return options;
}

std::int64_t positive(const cxxopts::ParseResult& given, const char* name, std::int64_t largest) {
  const auto value = given[name].as<std::int64_t>();
  REQUIRE(value >= 1 && value <= largest, ExitCode::usage, "--{}: expected 1 to {}, found {}", name,
          largest, value);
  return value;
}

BenchOptions read_options(const cxxopts::ParseResult& given) {
  REQUIRE(given.count("folder") > 0, ExitCode::usage,
          "SHARD_FOLDER is missing; see loader_bench --help");
  BenchOptions options;
  options.folder = given["folder"].as<std::string>();
  options.micro_batch_tokens = positive(given, "micro-batch-tokens", 1 << 30);
  options.seq_len = positive(given, "seq-len", 1 << 30);
  options.batches = positive(given, "batches", 1 << 30);
  options.vocab_size = static_cast<int>(positive(given, "vocab-size", tg::kMaxPieces));
  options.bos_id = positive(given, "bos-id", options.vocab_size - 1);
  options.prefetch.queue = static_cast<int>(positive(given, "queue", 1024));
  options.prefetch.workers = static_cast<int>(positive(given, "workers", 1024));
  REQUIRE(options.micro_batch_tokens % options.seq_len == 0, ExitCode::usage,
          "--micro-batch-tokens: expected a multiple of --seq-len {}, found {}", options.seq_len,
          options.micro_batch_tokens);
  return options;
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::unique_ptr<tg::TokenOrder> make_order(const tg::ShardSet& shards,
                                           const BenchOptions& options) {
  return std::make_unique<tg::StreamOrder>(shards, options.micro_batch_tokens, 1, 0, 1);
}

// A micro-batch is one row, a step eight of them.
tg::DocumentRows rows_of(const BenchOptions& options) {
  return {.tokens = options.micro_batch_tokens, .of_step = 8, .of_round = 8};
}

std::unique_ptr<tg::TokenOrder> make_documents_order(const tg::ShardSet& shards,
                                                     const BenchOptions& options) {
  return std::make_unique<tg::DocumentsOrder>(shards, rows_of(options), options.bos_id, 0, 1);
}

std::unique_ptr<tg::TokenOrder> make_aligned_order(const tg::ShardSet& shards,
                                                   const BenchOptions& options) {
  const tg::AlignedOrder::Pieces pieces{.bos_id = options.bos_id, .limit = options.seq_len};
  return std::make_unique<tg::AlignedOrder>(shards, rows_of(options), pieces, 0, 1);
}

std::uint64_t consume(tg::BatchSource& source, std::int64_t batches) {
  tg::HostBatch batch;
  std::uint64_t first_tokens = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    source.next(batch);
    first_tokens +=
        std::visit([](auto ids) -> std::uint64_t { return ids.front(); }, batch.inputs());
  }
  return first_tokens;
}

Speed measure_speed(tg::BatchSource& source, const BenchOptions& options) {
  consume(source,
          options.batches);  // reads the tokens once before, so that they are in the page cache
  source.restore({});
  const auto began = Clock::now();
  const std::uint64_t first_tokens = consume(source, options.batches);
  const double us = microseconds(Clock::now() - began);
  const auto tokens = static_cast<double>(options.batches * options.micro_batch_tokens);
  return {.tokens_per_s = tokens / us * 1e6, .first_tokens = first_tokens};
}

// Pauses before each call for long enough that the workers fill the queue.
NextTimes measure_next(tg::BatchSource& source, Clock::duration pause) {
  std::vector<double> times;
  tg::HostBatch batch;
  source.next(batch);  // allocates the buffer that is reused
  for (int i = 0; i < timed_calls; ++i) {
    std::this_thread::sleep_for(pause);
    const auto began = Clock::now();
    source.next(batch);
    times.push_back(microseconds(Clock::now() - began));
  }
  std::sort(times.begin(), times.end());
  return {.median_us = times[timed_calls / 2], .p99_us = times[timed_calls * 99 / 100]};
}

// Ten times the time of reading a queue of batches.
Clock::duration pause_for(const BenchOptions& options, double tokens_per_s) {
  const auto queued = static_cast<double>(options.prefetch.queue * options.micro_batch_tokens);
  const std::chrono::duration<double> refill(10 * queued / tokens_per_s);
  return least_pause + std::chrono::duration_cast<Clock::duration>(refill);
}

struct Results {
  Speed prefetched, ordered, documents, aligned;
  NextTimes next, next_aligned;
};

void print_results(const BenchOptions& options, const Results& results) {
  const auto& [prefetched, ordered, documents, aligned, next, next_aligned] = results;
  std::cout << fmt::format("read ahead    {:8.0f} M tokens/s (queue {}, workers {})\n",
                           prefetched.tokens_per_s / 1e6, options.prefetch.queue,
                           options.prefetch.workers);
  std::cout << fmt::format("read when due {:8.0f} M tokens/s\n", ordered.tokens_per_s / 1e6);
  std::cout << fmt::format("documents     {:8.0f} M tokens/s, read ahead, with segments\n",
                           documents.tokens_per_s / 1e6);
  std::cout << fmt::format("aligned       {:8.0f} M tokens/s, read ahead, with segments\n",
                           aligned.tokens_per_s / 1e6);
  std::cout << fmt::format("next()        {:8.2f} us (99th percentile {:.2f}) with a full queue\n",
                           next.median_us, next.p99_us);
  std::cout << fmt::format("      aligned {:8.2f} us (99th percentile {:.2f})\n",
                           next_aligned.median_us, next_aligned.p99_us);
  std::cout << fmt::format(
      R"({{"prefetch_tokens_per_s": {:.0f}, "ordered_tokens_per_s": {:.0f}, )"
      R"("documents_tokens_per_s": {:.0f}, "aligned_tokens_per_s": {:.0f}, )"
      R"("next_us_median": {:.3f}, "next_us_p99": {:.3f}, )"
      R"("aligned_next_us_median": {:.3f}, "aligned_next_us_p99": {:.3f}, "micro_batch_tokens": {}, )"
      R"("batches": {}, "queue": {}, "workers": {}, "vocab_size": {}}})"
      "\n",
      prefetched.tokens_per_s, ordered.tokens_per_s, documents.tokens_per_s, aligned.tokens_per_s,
      next.median_us, next.p99_us, next_aligned.median_us, next_aligned.p99_us,
      options.micro_batch_tokens, options.batches, options.prefetch.queue, options.prefetch.workers,
      options.vocab_size);
}

void run(int argc, char** argv) {
  cxxopts::Options declared = declare_options();
  const auto given = tg::parse_flags(declared, argc, argv);
  if (given.count("help") > 0) {
    std::cout << declared.help();
    return;
  }
  const BenchOptions options = read_options(given);
  const tg::ShardSet shards(options.folder, "train", options.vocab_size);
  const tg::BatchLayout layout{.seq_len = options.seq_len};

  tg::OrderedSource when_due(make_order(shards, options), layout);
  const Speed ordered = measure_speed(when_due, options);
  tg::PrefetchSource ahead(make_order(shards, options), layout, options.prefetch);
  const Speed prefetched = measure_speed(ahead, options);
  REQUIRE(prefetched.first_tokens == ordered.first_tokens, ExitCode::internal,
          "reading ahead changed the tokens: sums {} and {}", prefetched.first_tokens,
          ordered.first_tokens);
  const tg::BatchLayout of_documents{
      .seq_len = 0,
      .segments = tg::SegmentRule{.bos_id = options.bos_id, .limit = options.seq_len}};
  tg::PrefetchSource in_documents(make_documents_order(shards, options), of_documents,
                                  options.prefetch);
  const Speed documents = measure_speed(in_documents, options);
  tg::PrefetchSource in_alignment(make_aligned_order(shards, options), of_documents,
                                  options.prefetch);
  const Speed aligned = measure_speed(in_alignment, options);
  const auto pause = pause_for(options, ordered.tokens_per_s);
  print_results(options, {.prefetched = prefetched,
                          .ordered = ordered,
                          .documents = documents,
                          .aligned = aligned,
                          .next = measure_next(ahead, pause),
                          .next_aligned = measure_next(in_alignment, pause)});
}

}  // namespace

int main(int argc, char** argv) {
  return tg::run_program([&] { run(argc, argv); });
}
