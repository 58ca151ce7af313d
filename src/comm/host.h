#pragma once
#include <string>

namespace tg {

// The same in processes that can open each other's files in /proc, so of one host and one
// container: the kernel's boot id and the process name space. Empty: unknown.
std::string host_identity();

}  // namespace tg
