#pragma once

namespace tg {

// From now on the first SIGTERM, SIGINT or SIGUSR1 is a request to stop, and the next one ends the
// process at once with 128 + its number. Before the call each of them ends the process as usual.
void catch_stop_signals();

// The signal that asked to stop; 0: none yet.
int stop_signal();
// "SIGTERM"
const char* signal_name(int signal);

}  // namespace tg
