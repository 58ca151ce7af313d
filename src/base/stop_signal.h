#pragma once

namespace tg {

// Makes the first SIGTERM, SIGINT or SIGUSR1 a request to stop; the next one ends the process at
// once with 128 + its number. SIGHUP (a closed terminal) is also a request to stop, unless it is
// ignored (nohup), but repeated SIGHUPs count as one. Before this call each signal has its default
// effect.
void catch_stop_signals();

// Treats the exit of the parent process as a SIGHUP, even if SIGHUP is ignored: a killed launcher
// leaves no ranks behind.
void stop_with_parent();

// Returns the signal that requested a stop; 0: none yet.
int stop_signal();
// Returns the name of a stop signal, such as "SIGTERM".
const char* signal_name(int signal);

}  // namespace tg
