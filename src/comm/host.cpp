#include "comm/host.h"

#include <filesystem>
#include <fstream>

namespace tg {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  if (!std::getline(file, boot) || error) return "";
  return boot + " " + space.string();
}

}  // namespace tg
