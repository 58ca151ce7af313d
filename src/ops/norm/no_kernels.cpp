// Never called: see ops/built.h.
#include "ops/built.h"
#include "ops/norm/lanes_norm_kernel.h"
#include "ops/norm/mix_norm_kernel.h"
#include "ops/norm/residual_norm_kernel.h"

namespace tg::cuda {

void residual_norm_forward(const ResidualNormTerms&, const ResidualNormRows&, void*, void*, void*,
                           float*, const Fp8Copy&, Stream) {
  not_built();
}
int residual_norm_blocks(const ResidualNormTerms&, const ResidualNormRows&, bool) {
  not_built();
}
void residual_norm_backward(const ResidualNormTerms&, const ResidualNormRows&,
                            const ResidualNormGradients&, int, float*, const ResidualNormSums&,
                            Stream) {
  not_built();
}

void lanes_norm_forward(const LanesNormTerms&, const ResidualNormRows&, const LanesNormOutputs&,
                        Stream) {
  not_built();
}
int lanes_norm_blocks(const LanesNormTerms&, const ResidualNormRows&, bool) {
  not_built();
}
void lanes_norm_backward(const LanesNormTerms&, const ResidualNormRows&, const LanesNormGradients&,
                         int, float*, const LanesNormSums&, Stream) {
  not_built();
}

void mix_norm_forward(const MixNormTerms&, const ResidualNormRows&, void*, const MixNormed&,
                      Stream) {
  not_built();
}
int mix_norm_blocks(const MixNormTerms&, const ResidualNormRows&, bool) {
  not_built();
}
void mix_norm_backward(const MixNormTerms&, const ResidualNormRows&, const MixNormGradients&, int,
                       float*, float*, Stream) {
  not_built();
}

}  // namespace tg::cuda
