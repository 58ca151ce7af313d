#pragma once
// The quantised artifact of a parameter table, to a file and back.
#include <string>

#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "model_io/gptq_model.h"
#include "run_log/events.h"

namespace tg {

// Quantises what is exported, where it is, and writes it in the format of ARTIFACT (int6 or
// int8_zlib), with the model's record beside it. Errors: cannot_create, io.
ArtifactWritten write_artifact(const ParameterTable& table, const ModelRecord& record,
                               const Settings& settings, const std::string& path);
// Writes GPTQ's quantised model, with its record beside it. Also throws Error(internal) for a
// number that fp16 does not hold, and with COMPRESSOR=pergroup what compress_lrzip() throws.
ArtifactWritten write_artifact(const GptqModel& model, const ModelRecord& record,
                               Compressor compressor, const std::string& path);

// Fails unless what packs the file can be started, before a run trains for it. Errors:
// missing_input (lrzip is not installed).
void require_compressor(Compressor compressor);

// The name of such a file: final_model.int6.ptz; empty for none.
std::string artifact_name(Artifact artifact);

// The format of the file at `path`, by content; none: it is no artifact. Errors: missing_input, io.
Artifact artifact_of(const std::string& path);

// Sets the exported parameters to what the artifact at `path`, of any format and of this very
// model, holds. Rank 0 reads it for all ranks, which need not see its disk. Collective. Errors:
// missing_input, io; bad_data (a damaged file, other names or shapes); internal (a weight that is
// not finite).
void load_artifact(const ParameterTable& table, const std::string& path,
                   Communicator& communicator);

}  // namespace tg
