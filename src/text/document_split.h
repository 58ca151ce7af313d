#pragma once
// Which documents are for validation, in make_shards and in TextCorpus.
#include <cstdint>

namespace tg {

inline constexpr double default_val_fraction = 0.05;

// Whether document `index`, from 0, is for validation: the first val_documents are; if that is 0, a
// fraction val_fraction, evenly spread: those at which ⌊val_fraction · documents⌋ increases.
bool is_validation_document(std::int64_t index, std::int64_t val_documents = 0,
                            double val_fraction = default_val_fraction);

}  // namespace tg
