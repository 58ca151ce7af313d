#include "train/run_parts.h"

#include <fmt/format.h>

#include <cassert>
#include <filesystem>
#include <utility>

#include "config/derived.h"
#include "config/mode.h"
#include "config/types/text.h"
#include "data/prefetch.h"
#include "data/prefix_table.h"
#include "data/training_order.h"
#include "data/validation_mask.h"
#include "model_io/stored_record.h"
#include "ops/loss/linear_cross_entropy.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

// Divisor of a token's loss in a step's loss.
std::int64_t loss_tokens(const Plan& plan, const Settings& settings, int world_size) {
  return plan.head.sums_over_tokens ? micro_batches(settings, world_size)
                                    : most_tokens_per_step(settings, world_size);
}

bool is_training(ModelUse use) {
  return use == ModelUse::training || use == ModelUse::resuming;
}

// FP8=1 excludes a tied head, which trains worse in FP8 (docs/benchmarks.md): it must be named
// explicitly.
Fp8Parts requested_fp8(const Settings& settings) {
  auto parts = settings.runtime.fp8;
  if (parts.all() && settings.model.tie_embeddings) parts.head = false;
  return parts;
}

// The result of resolve_bos_id(); only the smear gate reads it.
std::int64_t resolved_bos_id(const Settings& settings) {
  assert(settings.model.gates.smear != SmearKind::gated || !settings.data.bos_id.automatic);
  return settings.data.bos_id.value;
}

TrainedModel load_parameters(const ModelSpec& spec, const Settings& settings,
                             const Machine& machine, Communicator& communicator, ModelUse use) {
  const PeerWatch::Work making(communicator.watch(), "making the initial weights");
  if (use == ModelUse::training)
    return {initial_weights(spec, settings, machine, communicator), {}};
  if (use == ModelUse::resuming) return {drawn_weights(spec, settings, machine), {}};
  auto loaded = trained_model(spec, settings, machine, communicator);
  if (use == ModelUse::inference) {
    for (auto row : loaded.parameters.rows()) row.value.requires_grad_(false);
  }
  return loaded;
}

std::unique_ptr<BatchSource> make_train_source(const Settings& settings, const TokenSource& tokens,
                                               at::Device device, const Communicator& communicator,
                                               SpanLog& spans) {
  warn_without_documents(settings, tokens, settings.data.bos_id.value);
  auto order =
      make_training_order(settings, tokens, communicator.rank(), communicator.world_size());
  const auto io = effective_io(settings);
  std::optional<PrefetchOptions> ahead;
  if (io.train_prefetch) {
    ahead = {static_cast<int>(io.train_prefetch_queue),
             static_cast<int>(io.train_prefetch_workers)};
  }
  BatchLayout layout{.seq_len = 0, .segments = training_segments(settings), .spans = &spans};
  layout.take(batch_shape(settings, communicator.world_size(), {}));
  return make_source(std::move(order), layout, ahead, batch_allocator(device));
}

std::optional<FurtherTargets> further_targets(const Settings& settings, at::Device device) {
  const auto& objective = settings.model.objective;
  if (!weighs_targets(objective)) return {};
  const auto fp32 = at::TensorOptions(device).dtype(at::kFloat);
  FurtherTargets further{.weights = at::zeros({next_targets(objective) + 1}, fp32), .prefixes = {}};
  if (mode::has_prefix_targets(settings))
    further.prefixes = at::tensor(prefix_table(settings), at::kLong).to(device);
  return further;
}

// The table of validation_mask() on the device; undefined without VALIDATION_MASK. Every rank makes
// its own: of GPT-2's vocabulary in a second, with nothing to send.
at::Tensor mask_of(const Settings& settings, at::Device device) {
  if (!settings.run.validation_mask) return {};
  auto table = validation_mask(settings);
  const auto vocab = settings.model.vocab_size;
  return at::from_blob(table.data(), {vocab, std::ssize(table) / vocab}, at::kByte)
      .to(device, at::kByte, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

ModelParts::ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
                       ModelUse use)
    : ModelParts(settings, machine, communicator, use, model_spec(settings)) {}

ModelParts::ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
                       ModelUse use, ModelSpec spec)
    : ModelParts(settings, machine, communicator, use, spec.plan,
                 load_parameters(spec, settings, machine, communicator, use)) {}

ModelParts::ModelParts(const Settings& settings, const Machine& machine, Communicator& communicator,
                       ModelUse use, const Plan& plan, TrainedModel trained)
    : parameters(std::move(trained.parameters)),
      record(std::move(trained.record)),
      model(plan, parameters,
            {.compute = machine.compute,
             .record_quirks = settings.runtime.record_quirks,
             .padding = machine.padding,
             .rope = rope_stretch(settings, communicator.world_size()),
             .recompute = settings.runtime.activation_recompute,
             .fp8 = is_training(use) ? requested_fp8(settings) : Fp8Parts{},
             .has_fp8 = machine.fp8,
             .step_tokens = loss_tokens(plan, settings, communicator.world_size()),
             .bos_id = resolved_bos_id(settings)}) {
  if (!is_training(use)) model.set_stage(stage_to_compute(model.plan(), record));
}

Validation make_validation(const Settings& settings, const TokenSplits& splits,
                           const Machine& machine, Communicator& communicator) {
  const auto& vocabulary = splits.vocabulary;
  warn_without_documents(settings, *splits.val, vocabulary.bos_id);
  return {settings,
          splits.val,
          vocabulary.bytes,
          vocabulary.bos_id,
          machine.device,
          communicator,
          mask_of(settings, machine.device)};
}

TokenizationOptions tokenization_options(const Machine& machine, Communicator& communicator) {
  return {.threads = machine.cores,
          .once_per_host = [&](const auto& make) { return communicator.once_per_host(make); }};
}

RunParts::RunParts(const Settings& settings, const Machine& machine, Communicator& communicator,
                   ModelUse use)
    : tokens(open_splits(settings.data, static_cast<int>(settings.model.vocab_size),
                         tokenization_options(machine, communicator))),
      validation(make_validation(settings, tokens, machine, communicator)),
      weights(settings, machine, communicator, use),
      optimizer(weights.parameters, settings.optim,
                {.matrices = machine.matrices,
                 .record_quirks = settings.runtime.record_quirks,
                 .scaled_tokens = machine.compute == at::kHalf
                                      ? most_tokens_per_step(settings, communicator.world_size())
                                      : 0},
                communicator),
      feeder(make_train_source(settings, *tokens.train, machine.device, communicator, spans),
             machine.device, effective_io(settings).train_copy_stream, &spans),
      phases(settings.io.training_timing_breakdown, settings.runtime.profile == ProfileMode::nvtx,
             machine.device, &spans),
      step(weights.model, optimizer, feeder, phases, communicator,
           micro_batches(settings, communicator.world_size()), machine.device,
           settings.runtime.graphs, further_targets(settings, machine.device)) {
  const auto world_size = communicator.world_size();
  for (const auto& shape : batch_shapes(settings, world_size))
    step.set_pass_size(shape, {.joined = joined_micro_batches(settings, world_size, shape.tokens)});
}

std::vector<SizePadded> padded_sizes(const ModelConfig& model, const Padding& padding) {
  const auto shape = model_shape(model);
  const auto asked = compute_sizes(shape, {}), padded = compute_sizes(shape, padding);
  std::vector<SizePadded> sizes{{"vocab", asked.vocab, padded.vocab},
                                {"model_dim", asked.dim, padded.dim},
                                {"head_dim", asked.head_dim, padded.head_dim},
                                {"mlp", asked.hidden, padded.hidden}};
  std::erase_if(sizes, [](const SizePadded& entry) { return entry.size == entry.padded; });
  return sizes;
}

std::optional<TokenizerFacts> describe(const Vocabulary& vocabulary, const Validation& validation) {
  if (vocabulary.format.empty()) return {};
  const auto& sidecar = vocabulary.bytes->sidecar;
  return TokenizerFacts{.format = vocabulary.format,
                        .pieces = vocabulary.pieces,
                        .normalisation = vocabulary.normalisation,
                        .unknown_tokens = validation.unknown_tokens(),
                        .has_val_bpb = validation.bytes().has_value(),
                        .byte_sidecar = sidecar ? sidecar->pattern() : ""};
}

std::optional<std::string> fp8_head_notice(const Settings& settings, const Machine& machine,
                                           const Fp8Parts& used) {
  if (!requested_fp8(settings).head || !machine.fp8 || used.head) return {};
  return fmt::format(
      "FP8={} has no effect on the head: expected a vocabulary of {} or more, in multiples of {}, "
      "and LOGIT_SOFTCAP up to {}, found {} and {}",
      value_text(settings.runtime.fp8), kMinFusedColumns, cuda::kFp8Chunk, cuda::kMaxSoftcap,
      compute_sizes(model_shape(settings.model), machine.padding).vocab,
      settings.model.objective.logit_softcap);
}

RunStarted describe(const RunParts& parts, const Settings& settings, const Machine& machine,
                    int world_size) {
  const auto& parameters = parts.weights.parameters;
  std::int64_t mtp_parameters = 0;
  for (const auto& row : parameters.rows()) {
    if (!row.exported) mtp_parameters += row.value.numel();
  }
  const auto fp8 = parts.weights.model.fp8_parts();
  const auto shape = batch_shape(settings, world_size, /*progress=*/{});
  return {.dataset = std::filesystem::weakly_canonical(settings.data.data_path).filename().string(),
          .train_shards = parts.tokens.train->count(),
          .train_tokens = parts.tokens.train->known_tokens(),
          .planned_tokens = planned_tokens(settings, world_size),
          .val_pattern = parts.validation.pattern(),
          .val_tokens = parts.validation.tokens(),
          .tokenizer = describe(parts.tokens.vocabulary, parts.validation),
          .parameters = parameters.element_count(),
          .mtp_parameters = mtp_parameters,
          .world_size = world_size,
          .micro_steps = micro_steps(settings, world_size),
          .micro_batches = micro_batches(settings, world_size),
          .tokens_per_step = tokens_per_step(settings, world_size),
          .schedule_iterations = schedule_follows_clock(settings.run)
                                     ? std::nullopt
                                     : std::optional(schedule_iterations(settings.run)),
          .attention_kernel = std::string(attention_name(machine.attention)),
          .kernels = parts.weights.model.kernels(shape.rows(), shape.seq_len,
                                                 attention_context(settings, shape.seq_len)),
          .device = machine.device_name,
          .compute_dtype = machine.compute_name,
          .on_gpu = machine.device.is_cuda(),
          .fp8 = fp8.any() ? value_text(fp8) : "",
          .threads = machine.threads,
          .peak_flops = machine.peak_flops};
}

}  // namespace tg
