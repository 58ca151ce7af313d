#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace tg {

// A rank that fails because it lost a peer exits this long after its error line: launchers report
// the rank that exits first, which should be the one with the original error.
constexpr std::chrono::seconds kLostPeerDelay{3};

// Sets this rank's error file (TORCHELASTIC_ERROR_FILE), which torchrun's report quotes; empty:
// none.
void set_error_file(const std::string& path);

// Writes `what` to the error file in torchrun's format. Only the first call writes: later errors
// are consequences of the first.
void write_error_file(int exit_code, std::string_view what);

}  // namespace tg
