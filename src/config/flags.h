#pragma once
#include <cxxopts.hpp>

#include "base/error.h"

namespace tg {

// Parses the command line of a program that declares its own flags. Throws Error(usage).
inline cxxopts::ParseResult parse_flags(cxxopts::Options& declared, int argc, char** argv) {
  try {
    return declared.parse(argc, argv);
  } catch (const cxxopts::exceptions::exception& error) {
    throw Error(ExitCode::usage, error.what());
  }
}

}  // namespace tg
