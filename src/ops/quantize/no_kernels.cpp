// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/quantize/gptq_kernel.h"

namespace tg::cuda {

void gptq_block(const GptqBlock&, Stream) {
  not_built();
}

}  // namespace tg::cuda
