#pragma once
// No more of LibTorch than nearly every file needs: what the headers here leave to instantiate,
// each file instantiates again. With autograd's headers as well that took 1.4 to 2.7 s of a
// file's 5.5 to 7.5 s, more than the few files that need them save.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
