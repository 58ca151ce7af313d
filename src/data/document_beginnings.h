#pragma once
#include <cstdint>

#include "config/settings.h"
#include "data/token_source.h"

namespace tg {

// Warns, once of all ranks, where attention or the smear gate wants to know where documents begin
// and BOS_ID=`bos_id` is none of the split's first million tokens. Of text it waits for the first
// ones. Errors: those of reading.
void warn_without_documents(const Settings& settings, const TokenSource& source,
                            std::int64_t bos_id);

}  // namespace tg
