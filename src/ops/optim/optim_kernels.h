#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Kernels of ops/optim/. Addresses are multiples of 16 bytes; scalars are on the device.

// Kernels of muon_update.h.
struct MuonMomentum {
  void* momentum;        // b, updated in place
  const void* gradient;  // g
  void* lookahead;       // the result, in b's dtype, or in `lookahead_dtype` if b is an average
  std::int64_t count;    // elements of each
  const float *mu, *clip;
  const bool* skip;
};
void nesterov_momentum(const MuonMomentum& args, Dtype momentum_dtype, Dtype gradient_dtype,
                       Stream stream);
// b is fp32.
void averaged_momentum(const MuonMomentum& args, Dtype gradient_dtype, Dtype lookahead_dtype,
                       Stream stream);

struct MuonStep {
  float* parameter;
  const void* update;  // of the same shape
  std::int64_t count;
  const float* rate;
  float decay, scale;
  bool cautious;
};
void decayed_step(const MuonStep& args, Dtype update_dtype, Stream stream);

// Kernels of normuon_update.h. Rows are multiples of 8 elements.
struct SecondMoments {
  const void* x;  // [matrices, rows, columns]
  std::int64_t matrices, rows, columns;
  bool of_rows;       // q has one number per row, else one per column
  std::int64_t kept;  // rows or columns
  float* q;           // [matrices, kept], updated in place
  double beta2;
  const bool* skip;
};
// Writes the normalized matrices to `out`, in x's dtype.
void normalize_variance(const SecondMoments& args, void* out, Dtype dtype,
                        const Workspace& workspace, Stream stream);

// Kernel of adam_update.h.
struct AdamUpdate {
  void* parameter;
  const void* gradient;
  float *exp_avg, *exp_avg_sq;
  std::int64_t count;  // elements of each
  const float *step, *lr_scale, *skip;
  double lr, weight_decay, beta1, beta2;
  float epsilon;
  bool cautious;
};
void adam_update(const AdamUpdate& args, Dtype parameter_dtype, Dtype gradient_dtype,
                 Stream stream);

// Kernel of add_and_clear.h.
struct AddAndClear {
  void *to, *from;
  std::int64_t count;  // elements of each
  const float* skip;   // null: adds
};
void add_and_clear(const AddAndClear& args, Dtype to_dtype, Dtype from_dtype, Stream stream);

}  // namespace tg::cuda
