#pragma once

namespace tg {

// `train_gpt watch RUN`: the run in this terminal, drawn again until it has ended, also if it
// stopped; once where standard output is no terminal. A RUN is as in report_command(). Errors:
// usage; missing_input; bad_data (naming file and line); io.
void watch_command(int argc, const char* const* argv);

}  // namespace tg
