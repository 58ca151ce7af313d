#pragma once
// Quantises a parameter table, and writes and reads its artifacts.
#include <string>
#include <vector>

#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "ops/quantize/hessian_factor.h"
#include "run_log/events.h"
#include "weights/artifact/write_artifact.h"

namespace tg {

// Quantises the exported parameters on their device and writes them in the format of ARTIFACT (int6
// or int8_zlib), with the model's record beside the file. Throws Error: cannot_create, io.
ArtifactWritten write_artifact(const ParameterTable& table, const ModelRecord& record,
                               const Settings& settings, const std::string& path);

// A model's tensors quantised by GPTQ.
struct GptqModel {
  std::vector<GptqTensor> tensors;
  WeightsQuantized event;
};

// Quantises the exported parameters on their device, as the last record's script does: gates of
// attention in int8 with GATED_ATTN_QUANT_GATE; other tensors of up to 65,536 elements and control
// tensors as fp16; the rest by GPTQ, token tables and heads in EMBED_BITS, else in MATRIX_BITS. A
// table without a Hessian, which no GEMM reads, is rounded to nearest. Weights of inputs that were
// always 0 are rounded to nearest or, with `record_quirks`, become 0; a warning counts their
// matrices. A Hessian that the caller does not hold is freed once its matrices' factor is computed.
// Throws Error(internal) for a Hessian or a weight that is not finite.
GptqModel quantize_by_gptq(const ParameterTable& table, Hessians hessians, const GptqConfig& config,
                           bool record_quirks = false);

// Writes GPTQ's quantised model, with its record beside the file. Throws Error: cannot_create, io;
// internal for a value beyond fp16's range; and with COMPRESSOR=pergroup what compress_lrzip()
// throws.
ArtifactWritten write_artifact(const GptqModel& model, const ModelRecord& record,
                               Compressor compressor, const std::string& path);

// Throws Error(missing_input) if COMPRESSOR needs lrzip and it is not installed. Called before
// training, so that a run does not fail at its end.
void require_compressor(Compressor compressor);

// Returns an artifact's file name, such as final_model.int6.ptz; empty for none.
std::string artifact_name(Artifact artifact);

// Returns the format of the file at `path`, by its content; none if it is not an artifact. Throws
// Error: missing_input, io.
Artifact artifact_of(const std::string& path);

// Sets the exported parameters to the values in this model's artifact at `path`, of any format.
// Rank 0 reads and broadcasts; the other ranks need no access to the file. Collective. Throws
// Error: missing_input, io; bad_data for a damaged file, or other names or shapes; internal for a
// weight that is not finite.
void load_artifact(const ParameterTable& table, const std::string& path,
                   Communicator& communicator);

}  // namespace tg
