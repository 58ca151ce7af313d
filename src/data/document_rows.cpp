#include "data/document_rows.h"

#include <algorithm>

#include "base/error.h"

namespace tg {

std::int64_t DocumentRows::left_in_round(std::int64_t dealt) const {
  return std::min(of_round - dealt % of_round, of_step - dealt);
}

void DocumentRows::require_possible(const LoaderState& state, std::int64_t world_size) const {
  const bool possible = state.token_offset >= 0 && state.micro_batches >= 0 &&
                        state.micro_batches < of_step && state.micro_batches % world_size == 0;
  REQUIRE(possible, ExitCode::config,
          "loader state token_offset={} micro_batches={} does not fit {} rows on {} ranks; resume "
          "between steps or with the settings of the first run",
          state.token_offset, state.micro_batches, of_step, world_size);
}

void fail_without_documents(const TokenSource& source, std::int64_t bos_id) {
  fail(ExitCode::bad_data,
       "{}: no document begins (expected the token BOS_ID={} at each one's beginning, found it "
       "nowhere); set BOS_ID to the token that begins them, or LOADER_ORDER=stream",
       source.pattern(), bos_id);
}

}  // namespace tg
