#pragma once
#include <cxxopts.hpp>

#include "base/error.h"

namespace tg {

// The command line of a program with flags of its own. Errors: usage.
inline cxxopts::ParseResult parse_flags(cxxopts::Options& declared, int argc, char** argv) {
  try {
    return declared.parse(argc, argv);
  } catch (const cxxopts::exceptions::exception& error) {
    throw Error(ExitCode::usage, error.what());
  }
}

}  // namespace tg
