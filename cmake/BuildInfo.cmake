# Writes to OUTPUT the VERSION, the git commit of SOURCE_DIR and the size of its src/ as tar.xz.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
# src/ as tar.xz, as a submission would include it. Files are sorted and have a fixed time, because directory order
# and checkout times change the size by a few per cent.
set(archive ${OUTPUT}.tar.xz)
file(GLOB_RECURSE sources ${SOURCE_DIR}/src/*)
list(FILTER sources EXCLUDE REGEX "/__pycache__/")
file(ARCHIVE_CREATE OUTPUT ${archive} PATHS ${sources} FORMAT gnutar COMPRESSION XZ MTIME 0)
file(SIZE ${archive} bytes)
file(REMOVE ${archive})
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#pragma once
inline constexpr char kVersion[] = \"@VERSION@\";
inline constexpr char kGitCommit[] = \"@commit@\";
inline constexpr long kCodeBytes = @bytes@;
")
