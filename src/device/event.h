#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/elapsed.h"

namespace tg {

// The current stream of the device.
inline c10::Stream compute_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// A stream from the device's pool, other than the current one.
inline c10::Stream stream_from_pool(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}
// Makes later work on `later` wait for the work queued on `earlier`, without blocking the host.
// Both are GPU streams.
inline void order_streams(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event done(earlier.device_type());
  done.record(earlier);
  done.block(later);
}

// A timing event. On a GPU it completes when the work queued before it on the stream is done; on a
// CPU it is the host time at construction.
class Event {
 public:
  explicit Event(const c10::Stream& stream)
      : event_(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT), host_(Clock::now()) {
    if (stream.device_type() != c10::DeviceType::CPU) event_.record(stream);
  }
  // Milliseconds to `later`, an event of the same device type. On a GPU both must have completed.
  double ms_until(const Event& later) const {
    if (event_.device_type() != c10::DeviceType::CPU) return event_.elapsedTime(later.event_);
    return milliseconds(later.host_ - host_);
  }

 private:
  c10::Event event_;
  Clock::time_point host_;
};

}  // namespace tg
