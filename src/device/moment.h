#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

namespace tg {

// The stream that is current on the device.
inline c10::Stream compute_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// A point in time: where a GPU's stream has done what was queued on it before, or, for a CPU's
// stream, the host's clock at the call.
class Moment {
 public:
  explicit Moment(const c10::Stream& stream)
      : event_(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT), host_(Clock::now()) {
    if (stream.device_type() != c10::DeviceType::CPU) event_.record(stream);
  }
  // Of the same kind of stream. On a GPU `later` must have been reached.
  double ms_until(const Moment& later) const {
    if (event_.device_type() != c10::DeviceType::CPU) return event_.elapsedTime(later.event_);
    return std::chrono::duration<double, std::milli>(later.host_ - host_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  c10::Event event_;
  Clock::time_point host_;
};

}  // namespace tg
