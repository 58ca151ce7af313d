#pragma once
// A trace of some steps for Perfetto: LibTorch's own operations and the GPU's work from Kineto, the
// prefetch workers beside them, and arrows from a batch's read over its copy to its forward pass.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/span_log.h"
#include "train/events.h"

namespace tg {

class Trace {
 public:
  // Errors: cannot_create when there can be no file at `path`.
  Trace(std::string path, at::Device device, SpanLog& spans);

  bool running() const { return running_; }
  void start();
  // Waits for the device and writes the file. A file that cannot be written is no error of the run.
  TraceWritten stop();

 private:
  void write(const std::vector<Span>& spans) const;

  std::string path_;
  at::Device device_;
  SpanLog& spans_;
  bool running_ = false;
};

}  // namespace tg
