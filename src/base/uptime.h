#pragma once

namespace tg {

// Milliseconds since the system started this process, loading of libraries included.
double process_uptime_ms();

}  // namespace tg
