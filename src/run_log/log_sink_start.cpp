// Lines at the start of a run.
#include "base/log.h"
#include "base/python_format.h"
#include "config/derived.h"
#include "config/types/text.h"
#include "run_log/log_sink.h"

namespace tg {
namespace {

void data_lines(const RunStarted& event, const Settings& settings) {
  if (event.tokenizer) log_tokenizer(*event.tokenizer, settings);
  log_info("train_loader:dataset:{} train_shards:{}", event.dataset, event.train_shards);
  log_info("val_loader:shards pattern={} tokens:{}", event.val_pattern, event.val_tokens);
  if (!event.train_tokens) {
    log_info("train_tokens:unknown (they are counted while training runs)");
    return;
  }
  const bool capped = settings.run.max_wallclock_seconds > 0;
  log_info("train_tokens:{} passes_planned:{:.2f}{}", *event.train_tokens,
           event.planned_tokens / static_cast<double>(*event.train_tokens),
           capped ? " (MAX_WALLCLOCK_SECONDS may end the run sooner)" : "");
}

// Logs model parts that the older recipes lack.
void part_lines(const Settings& settings) {
  const auto& model = settings.model;
  const auto& [loops, start, end, at] = model.recurrence;
  if (loops > 0)
    log_info("recurrence:blocks {} to {} passes:{} from:{}", start, end, loops + 1, value_text(at));
  if (model.lanes.parallel_start_layer > 0)
    log_info("lanes:two from block {} final:{}", model.lanes.parallel_start_layer,
             choice_name(model.lanes.parallel_final_lane));
  std::string gates;
  if (model.gates.skip_gates_enabled) gates += " skip";
  if (mode::has_gated_smear(settings)) gates += " smear";
  const auto head_gate = model.gates.head_gate;
  if (head_gate == HeadGateKind::sparse) gates += " sparse_attn";
  if (head_gate == HeadGateKind::full) gates += " gated_attn";
  if (head_gate == HeadGateKind::output) gates += " attn_out";
  if (!gates.empty()) log_info("gates:{}", gates.substr(1));
}

void model_lines(const RunStarted& event, const Settings& settings) {
  const auto& model = settings.model;
  log_info("recipe:{}", choice_name(model.recipe));
  log_info("model_params:{}", event.parameters);
  log_info("mtp_num_heads:{} mtp_loss_weight:{} mtp_params:{}", model.mtp_num_heads,
           py_repr(model.mtp_loss_weight), event.mtp_parameters);
  std::vector<std::int64_t> exclusive;
  for (auto i = model.num_layers - model.xsa_last_n; i < model.num_layers; ++i)
    exclusive.push_back(i);
  log_info("XSA:last_{} active_layers:{}", model.xsa_last_n, py_repr(exclusive));
  part_lines(settings);
  log_info("world_size:{} grad_accum_steps:{}", event.world_size, event.micro_steps);
  log_info("micro_batches:{} tokens_per_step:{}", event.micro_batches, event.tokens_per_step);
  log_info("attention_mode:gqa num_heads:{} num_kv_heads:{}", model.num_heads, model.num_kv_heads);
  log_info("attention_kernel:{} device:{} compute_dtype:{}", event.attention_kernel, event.device,
           event.compute_dtype);
  log_info("kernels: {}", event.kernels);
  if (!event.fp8.empty()) log_info("fp8:{}", event.fp8);
  log_info("threads:{}", event.threads);
}

void optimizer_lines(const Settings& settings) {
  const auto& optim = settings.optim;
  const auto& run = settings.run;
  const bool tied = settings.model.tie_embeddings;
  log_info("tie_embeddings:{} embed_lr:{} head_lr:{} matrix_lr:{} scalar_lr:{}", py_repr(tied),
           py_repr(tied ? optim.tied_embed_lr : optim.embed_lr),
           py_repr(tied ? 0.0 : optim.head_lr), py_repr(optim.matrix_lr), py_repr(optim.scalar_lr));
  log_info(
      "train_batch_tokens:{} train_seq_len:{} iterations:{} warmup_steps:{} "
      "max_wallclock_seconds:{:.3f}",
      value_text(run.train_batch_tokens), value_text(run.train_seq_len), run.iterations,
      run.warmup_steps, run.max_wallclock_seconds);
  if (run.gptq_reserve_seconds > 0 && run.max_wallclock_seconds > 0)
    log_info("gptq:reserving {:.0f}s, effective={:.0f}ms", run.gptq_reserve_seconds,
             training_seconds(run) * 1000);
  log_info("seed:{}", settings.data.seed);
}

void io_lines(const Settings& settings, bool on_gpu) {
  const auto io = effective_io(settings);
  if (io.training_timing_breakdown != TimingBreakdown::off) {
    log_info("training_timing_breakdown:enabled log_every:{}", io.training_timing_every);
  }
  log_info("train_io:prefetch:{} copy_stream:{}", py_repr(io.train_prefetch),
           py_repr(on_gpu && io.train_copy_stream));
  log_info("val_io:overlap:{} prefetch:{} copy_stream:{} prefetch_queue:{} bytecount_device:{}",
           py_repr(io.val_prefetch || (on_gpu && io.val_copy_stream)), py_repr(io.val_prefetch),
           py_repr(on_gpu && io.val_copy_stream), io.val_prefetch_queue,
           choice_name(io.val_bytecount_device));
}

}  // namespace

void log_start(const RunStarted& event, const Settings& settings) {
  data_lines(event, settings);
  model_lines(event, settings);
  optimizer_lines(settings);
  io_lines(settings, event.on_gpu);
}

void log_tokenizer(const TokenizerFacts& tokenizer, const Settings& settings) {
  if (tokenizer.has_val_bpb) {
    log_info("val_bpb:enabled tokenizer_kind={} tokenizer_path={}", tokenizer.format,
             settings.data.tokenizer_path);
  } else {
    log_info(
        "val_bpb:unavailable ({} of the validation tokens are unknown pieces, which may hide "
        "spaces: no piece is a space alone; train the tokenizer with --byte_fallback=true)",
        tokenizer.unknown_tokens);
  }
  if (tokenizer.has_val_bpb && tokenizer.unknown_tokens > 0) {
    log_warn(
        "val_bpb reads too high: {} of the validation tokens are unknown pieces, which count 0 "
        "bytes; train the tokenizer with --byte_fallback=true",
        tokenizer.unknown_tokens);
  }
  if (!tokenizer.byte_sidecar.empty())
    log_info("val_bytes:sidecar pattern={}", tokenizer.byte_sidecar);
  const auto vocab = settings.model.vocab_size;
  if (tokenizer.pieces < vocab) {
    log_info("tokenizer_pieces:{} (the other {} ids of VOCAB_SIZE={} are no token, of 0 bytes)",
             tokenizer.pieces, vocab - tokenizer.pieces, vocab);
  }
  if (!tokenizer.normalisation.empty()) {
    log_info("tokenizer_normalises:{} (val_bpb is of the {})", tokenizer.normalisation,
             tokenizer.byte_sidecar.empty() ? "normalised text" : "text before that");
  }
}

}  // namespace tg
