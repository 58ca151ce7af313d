#include "train/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <string>

#include "base/error.h"
#include "config/derived.h"
#include "model/parameters.h"

namespace tg {

namespace {

// LibTorch's host allocator has no exception type of its own.
bool is_out_of_memory(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         text.find("not enough memory") != std::string::npos ||
         text.find("can't allocate memory") != std::string::npos ||
         text.find("CUDA out of memory") != std::string::npos;
}

[[noreturn]] void explain(const Settings& settings, std::string what) {
  what = what.substr(0, what.find('\n'));
  const auto tokens = micro_batch_tokens(settings, /*world_size=*/1);
  // Shapes alone: nothing is allocated to count them.
  const auto parameters = make_parameters(settings.model, at::kFloat, at::kMeta).element_count();
  fail(ExitCode::memory,
       "out of memory with {} parameters and micro-batches of {} tokens ({} sequences of {}): {}; "
       "lower "
       "TRAIN_BATCH_TOKENS or raise GRAD_ACCUM_STEPS, lower VAL_BATCH_SIZE, or choose a smaller "
       "MODEL_DIM",
       parameters, tokens, tokens / settings.run.train_seq_len, settings.run.train_seq_len, what);
}

}  // namespace

void explaining_out_of_memory(const Settings& settings, const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    explain(settings, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    explain(settings, error.what());
  }
}

}  // namespace tg
