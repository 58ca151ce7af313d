#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace tg {

// A rank that only lost a peer ends this much later than it says so: launchers report the first
// that ends, which should be the one that failed by itself.
constexpr std::chrono::seconds kLostPeerDelay{3};

// Where torchrun looks for what a rank died of, to show it in its own report; empty: nowhere.
void set_error_file(const std::string& path);

// Writes `what` there as torchrun reads it, once: what follows a first error follows from it.
void write_error_file(int exit_code, std::string_view what);

}  // namespace tg
