#pragma once
// Events at the end of a run.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/types/choices.h"
#include "run_log/event_schema.h"

namespace tg {

struct TraceWritten {
  static constexpr EventName kEvent{"trace", "PROFILE=1"};

  std::string path;
  std::string error;  // why the trace could not be written; empty: it was

  void visit(auto&& v) const {
    v("path", path, Unit::none, "of the trace");
    v("error", if_any(error), Unit::none, "why it could not be written; else absent");
  }
};

struct StoppedEarly {
  static constexpr EventName kEvent{"stopping_early", "MAX_WALLCLOCK_SECONDS ended the run"};

  std::int64_t step = 0;
  double elapsed_ms = 0;

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("train_time_ms", elapsed_ms, Unit::ms, "validation excluded");
  }
};

struct LoopEnded {
  static constexpr EventName kEvent{"closing", "end of the steps"};

  double train_ms = 0, val_ms = 0;

  void visit(auto&& v) const {
    v("train_time_ms", train_ms, Unit::ms, "validation excluded");
    v("val_time_ms", val_ms, Unit::ms, "of all validations");
  }
};

struct MemoryMeasured {
  static constexpr EventName kEvent{"memory", "end"};

  std::int64_t peak_allocated = 0, peak_reserved = 0;

  void visit(auto&& v) const {
    v("peak_allocated_bytes", peak_allocated, Unit::bytes, "of the GPU, or of the process");
    v("peak_reserved_bytes", peak_reserved, Unit::bytes, "of the GPU, or of the process");
  }
};

struct AverageApplied {
  static constexpr EventName kEvent{"average", "an average became the weights"};

  std::string line;  // WeightAverage::apply()'s line: "ema:applying EMA weights"

  void visit(auto&& v) const {
    v("name", line.substr(0, line.find(':')), Unit::none, "ema, swa or lawa");
    v("text", line, Unit::none, "the log line");
  }
};

struct ModelWritten {
  static constexpr EventName kEvent{"model", "end"};

  std::uint64_t torch_bytes = 0, safetensors_bytes = 0;  // sizes of final_model.pt, .safetensors
  std::int64_t excluded_parameters = 0;                  // parameters of the multi-token heads
  std::int64_t code_bytes = 0;

  void visit(auto&& v) const {
    v("file_bytes",
      CountsByName{{"final_model.pt", torch_bytes}, {"final_model.safetensors", safetensors_bytes}},
      Unit::bytes, "by file name");
    v("code_bytes", code_bytes, Unit::bytes, "of the code as a submission counts it");
    v("excluded_params", if_any(excluded_parameters), Unit::parameters,
      "of multi-token heads that the files leave out; absent without");
  }
};

struct HessiansCollected {
  static constexpr EventName kEvent{"hessians", "end, with ARTIFACT=gptq"};

  std::int64_t count = 0;  // matrices with a Hessian
  std::int64_t batches = 0, tokens = 0;
  double ms = 0;

  void visit(auto&& v) const {
    v("hessians", count, Unit::none, "matrices with one");
    v("batches", batches, Unit::none, "of each rank");
    v("tokens", tokens, Unit::tokens, "of all ranks");
    v("hessians_ms", ms, Unit::ms, "");
  }
};

struct WeightsQuantized {
  static constexpr EventName kEvent{"quantized_weights", "end, with ARTIFACT=gptq"};

  std::map<std::string, std::vector<std::string>> names;  // tensors' names, by storage kind
  double ms = 0;                                          // excludes the copy from the device

  CountsByName counts() const {
    CountsByName counts;
    for (const auto& [kind, tensors] : names) counts[kind] = tensors.size();
    return counts;
  }

  void visit(auto&& v) const {
    v("tensors", counts(), Unit::none, "by how they are stored");
    v("quantize_ms", ms, Unit::ms, "");
  }
};

struct ArtifactWritten {
  static constexpr EventName kEvent{"artifact", "end, with ARTIFACT"};

  std::string path;
  Artifact format = Artifact::int6;            // not none
  Compressor compressor = Compressor::brotli;  // used with gptq
  std::uint64_t bytes = 0;                     // size of the file
  std::uint64_t record_bytes = 0;              // size of the model's record
  std::int64_t code_bytes = 0;
  std::uint64_t torch_bytes = 0;    // size of the torch.save archive before compression
  std::uint64_t payload_bytes = 0;  // size of all tensors in the archive
  std::uint64_t weight_bytes = 0;   // size of all tensors before quantisation
  double quantize_ms = 0, serialize_ms = 0, compress_ms = 0, write_ms = 0;

  // The challenge's limit for artifact, record and code together.
  static constexpr std::int64_t kLimitBytes = 16'000'000;
  std::int64_t total_bytes() const {
    return static_cast<std::int64_t>(bytes + record_bytes) + code_bytes;
  }
  std::string_view compressor_name() const {
    return format == Artifact::gptq ? choice_name(compressor) : "";
  }

  void visit(auto&& v) const {
    v("path", path, Unit::none, "of the file");
    v("format", choice_name(format), Unit::none, "int6, int8_zlib or gptq");
    v("compressor", if_any(compressor_name()), Unit::none, "with gptq: lzma, brotli or pergroup");
    v("bytes", bytes, Unit::bytes, "of the file");
    v("record_bytes", record_bytes, Unit::bytes, "of FILE.record.json beside it");
    v("code_bytes", code_bytes, Unit::bytes, "of the code as a submission counts it");
    v("total_bytes", total_bytes(), required(Unit::bytes), "of file, record and code");
    v("limit_bytes", kLimitBytes, required(Unit::bytes), "of the challenge, for all three");
    v("torch_bytes", torch_bytes, Unit::bytes, "of the archive before compression");
    v("payload_bytes", payload_bytes, Unit::bytes, "of all tensors in it");
    v("weight_bytes", weight_bytes, Unit::bytes, "of all tensors before quantisation");
    v("quantize_ms", quantize_ms, Unit::ms, "with the copy from the device");
    v("serialize_ms", serialize_ms, Unit::ms, "");
    v("compress_ms", compress_ms, Unit::ms, "");
    v("write_ms", write_ms, Unit::ms, "");
  }
};

// The last event: the process exits and can still report it.
struct RunEnded {
  static constexpr EventName kEvent{
      "exit",
      "the last: the process ends. After a second signal, SIGKILL or an abort of a library there "
      "is none"};

  int exit_code = 0;
  std::optional<std::int64_t> step{};  // steps done, if known
  std::string error;                   // the error's message; empty with exit code 0

  void visit(auto&& v) const {
    constexpr std::size_t kMaxText = 4096;  // readers limit a line's length
    v("code", exit_code, required(), "[faults.md](faults.md) lists them");
    v("step", step, Unit::steps, "done; absent where an error came before the first");
    v("text", if_any(error.substr(0, kMaxText)), Unit::none, "of the error; else absent");
  }
};

}  // namespace tg
