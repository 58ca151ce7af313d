// usage: input_bench [--config FILE] [--NAME VALUE ...]     (train_gpt's own settings)
//
// Measures whether training waits for tokens: milliseconds of full optimizer steps with the batch
// already on the device, compared with the pipeline with everything on and with each switch off,
// from normal and from slowed storage; and the cost of timing the phases. One process alternates
// between all variants, so that they share a warm machine; each round begins with another variant.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "base/program.h"
#include "config/check.h"
#include "config/derived.h"
#include "config/parse.h"
#include "data/prefetch.h"
#include "data/splits.h"
#include "device/gpu.h"
#include "model_io/model_files.h"
#include "recipes/recipe.h"
#include "train/readback.h"
#include "train/train_step.h"

namespace tg {
namespace {

constexpr int kRounds = 4, kSteps = 4;
using Clock = std::chrono::steady_clock;

struct Variant {
  const char* name;
  bool resident = false;
  double megabytes_per_s = 0;  // 0: unlimited
  bool prefetch = true, copy_stream = true;
  TimingBreakdown timing = TimingBreakdown::off;
};

constexpr Variant kVariants[] = {
    {.name = "batch on the device", .resident = true},
    {.name = "all on"},
    {.name = "all on, events breakdown", .timing = TimingBreakdown::events},
    {.name = "prefetch off", .prefetch = false},
    {.name = "copy stream off", .copy_stream = false},
    {.name = "both off", .prefetch = false, .copy_stream = false},
    {.name = "50 MB/s, all on", .megabytes_per_s = 50},
    {.name = "50 MB/s, prefetch off", .megabytes_per_s = 50, .prefetch = false},
    {.name = "2 MB/s, all on", .megabytes_per_s = 2},
    {.name = "2 MB/s, prefetch off", .megabytes_per_s = 2, .prefetch = false},
};

// The tokens of another source, at a limited rate.
class SlowTokens final : public TokenSource {
 public:
  SlowTokens(const TokenSource& source, double megabytes_per_s)
      : source_(source), seconds_per_token_(2e-6 / megabytes_per_s) {}
  const std::string& pattern() const override { return source_.pattern(); }
  std::string identity() const override { return source_.identity(); }
  int count() const override { return source_.count(); }
  std::string path(int shard) const override { return source_.path(shard); }
  std::int64_t tokens(int shard) const override { return source_.tokens(shard); }
  std::int64_t start(int shard) const override { return source_.start(shard); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return source_.tokens_up_to(limit);
  }
  int id_bytes() const override { return source_.id_bytes(); }
  void read_at(std::int64_t offset, const MutableIds& out) const override {
    const auto size = std::visit([](auto ids) { return ids.size(); }, out);
    const std::chrono::duration<double> needed(static_cast<double>(size) * seconds_per_token_);
    const auto done = Clock::now() + std::chrono::duration_cast<Clock::duration>(needed);
    source_.read_at(offset, out);
    std::this_thread::sleep_until(done);
  }

 private:
  const TokenSource& source_;
  double seconds_per_token_;
};

// A step's micro-batches, copied to the device once.
class ResidentFeed final : public BatchFeed {
 public:
  ResidentFeed(Feeder& feeder, std::int64_t micro_batches) {
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      auto batch = feeder.next();
      batch.inputs = batch.inputs.clone();
      batch.targets = batch.targets.clone();
      batches_.push_back(batch);
    }
  }
  DeviceBatch next() override { return batches_[next_++ % batches_.size()]; }

 private:
  std::vector<DeviceBatch> batches_;
  std::size_t next_ = 0;
};

// State shared by all variants.
struct Bench {
  Bench(const Settings& chosen, const Machine& where)
      : settings(chosen),
        machine(where),
        tokens(open_splits(settings.data, static_cast<int>(settings.model.vocab_size),
                           {.threads = where.cores})),
        spec(model_spec(settings)),
        table(initial_weights(spec, settings, machine, alone)),
        model(spec.plan, table, {.compute = machine.compute, .padding = machine.padding}),
        optimizer(table, settings.optim, {.matrices = machine.matrices}, alone) {}

  std::unique_ptr<Feeder> feeder(const Variant& variant, const TokenSource& source) const {
    const auto micro = micro_batches(settings, 1);
    std::optional<PrefetchOptions> ahead;
    if (variant.prefetch) ahead = {static_cast<int>(settings.io.train_prefetch_queue), 1};
    auto order =
        std::make_unique<StreamOrder>(source, micro_batch_tokens(settings, 1), micro, 0, 1);
    return std::make_unique<Feeder>(
        make_source(std::move(order), {.seq_len = settings.run.train_seq_len.first()}, ahead,
                    batch_allocator(machine.device)),
        machine.device, variant.copy_stream);
  }

  struct Result {
    double ms_per_step, phases_per_step;  // the latter is 0 if the phases are not timed
    double share_of_phases;
  };
  Result measure(const Variant& variant);

  const Settings& settings;
  const Machine& machine;
  TokenSplits tokens;
  Communicator alone;
  const ModelSpec spec;
  ParameterTable table;
  Gpt model;
  Optimizer optimizer;
};

Bench::Result Bench::measure(const Variant& variant) {
  const double rate = variant.megabytes_per_s > 0 ? variant.megabytes_per_s : 1e9;
  const SlowTokens slow(*tokens.train, rate);
  const auto fed = feeder(variant, variant.megabytes_per_s > 0 ? slow : *tokens.train);
  std::unique_ptr<ResidentFeed> resident;
  if (variant.resident) resident = std::make_unique<ResidentFeed>(*fed, micro_batches(settings, 1));
  BatchFeed& feed = resident ? static_cast<BatchFeed&>(*resident) : *fed;
  PhaseRecorder phases(variant.timing, false, machine.device, nullptr);
  TrainStep step(model, optimizer, feed, phases, alone, micro_batches(settings, 1), machine.device,
                 settings.runtime.graphs);
  const StepSchedule plan{
      .lr_scale = 0.01, .momentum = settings.optim.muon_momentum, .clip_norm = 0.3};

  // As in the trainer, a step's metrics are waited for after the next step is launched.
  std::vector<StepRecord> records;
  std::optional<Readback> before;
  const auto run_steps = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      phases.begin_step(feed);
      Readback numbers(step.run(plan));
      if (auto record = phases.end_step(feed)) records.push_back(std::move(*record));
      if (before) before->wait();
      before.emplace(std::move(numbers));
    }
    before->wait();
    if (machine.device.is_cuda()) wait_for_gpu();
  };
  run_steps(1);
  records.clear();
  const auto began = Clock::now();
  run_steps(kSteps);
  const std::chrono::duration<double, std::milli> spent = Clock::now() - began;

  Result result{.ms_per_step = spent.count() / kSteps, .phases_per_step = 0, .share_of_phases = 0};
  for (const auto& record : records) result.phases_per_step += record.times().phases() / kSteps;
  result.share_of_phases = result.phases_per_step / result.ms_per_step;
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void run(int argc, char** argv) {
  auto [settings, origins, warnings, help, version, help_page] =
      parse_settings(argc, argv, {.set_recipe_defaults = set_recipe_defaults});
  check_settings(settings, 1);
  const auto machine = set_up_machine(settings.runtime, settings.model, read_launch());
  Bench bench(settings, machine);
  std::map<const char*, std::vector<double>> times, against;
  std::vector<double> shares;
  const auto count = std::size(kVariants);
  bench.measure(kVariants[0]);  // chooses kernels and allocates memory
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::map<const char*, double> now;
    for (std::size_t i = 0; i < count; ++i) {
      const Variant& variant = kVariants[(round + i) % count];
      const auto result = bench.measure(variant);
      now[variant.name] = result.ms_per_step;
      fmt::print("round {} {:28} {:9.2f} ms a step\n", round + 1, variant.name, result.ms_per_step);
      std::fflush(stdout);
      if (result.share_of_phases > 0) shares.push_back(result.share_of_phases);
    }
    for (const auto& [name, ms] : now) {
      times[name].push_back(ms);
      against[name].push_back(100 * (ms / now[kVariants[0].name] - 1));
    }
  }
  fmt::print("{}, {} tokens a step, {} rounds of {} steps of each\n", machine.device_name,
             settings.run.train_batch_tokens.first(), kRounds, kSteps);
  fmt::print("{:28} {:>12} {:>9} {:>9} {:>24}\n", "", "ms a step", "least", "most",
             "against on the device");
  for (const Variant& variant : kVariants) {
    const auto& ms = times[variant.name];
    fmt::print("{:28} {:12.2f} {:9.2f} {:9.2f} {:+23.3f}%\n", variant.name, median(ms),
               *std::min_element(ms.begin(), ms.end()), *std::max_element(ms.begin(), ms.end()),
               median(against[variant.name]));
  }
  fmt::print("the phases of the events breakdown are {:.2f}% of the measured step\n",
             100 * median(shares));
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
