#pragma once
// The quantised artifact of a parameter table, to a file and back.
#include <string>

#include "artifact/write_artifact.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"

namespace tg {

// Quantises what is exported, where it is, and writes it in the format of ARTIFACT (int6 or
// int8_zlib). Errors: cannot_create, io.
ArtifactStats save_artifact(const ParameterTable& table, const Settings& settings,
                            const std::string& path);

// Sets the exported parameters to what the artifact at `path`, of either format, holds. Rank 0
// reads it for all ranks, which need not see its disk. Collective. Errors: missing_input, io;
// bad_data (a damaged file, other names or shapes).
void load_artifact(const ParameterTable& table, const std::string& path,
                   Communicator& communicator);

}  // namespace tg
