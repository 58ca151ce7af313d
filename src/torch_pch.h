#pragma once
// The LibTorch headers that cost seconds each; torch/torch.h as a whole would cost three times
// these.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>
