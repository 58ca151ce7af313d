#pragma once

namespace tg {

// From now on the first SIGTERM, SIGINT or SIGUSR1 is a request to stop, and the next one ends the
// process at once with 128 + its number. So is a SIGHUP, of a terminal that was closed, unless it
// is ignored (nohup), but several of them are one. Before the call each ends the process as usual.
void catch_stop_signals();

// From now on the end of the process that started this one is as a SIGHUP, also where that is
// ignored: a launcher that was killed leaves no ranks behind.
void stop_with_parent();

// The signal that asked to stop; 0: none yet.
int stop_signal();
// "SIGTERM"
const char* signal_name(int signal);

}  // namespace tg
