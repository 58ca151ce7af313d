# Writes OUTPUT: the git commit of SOURCE_DIR and the size of its src/ in bytes, for the log.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(GLOB_RECURSE sources ${SOURCE_DIR}/src/*)
set(bytes 0)
foreach(source IN LISTS sources)
  file(SIZE ${source} size)
  math(EXPR bytes "${bytes} + ${size}")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#pragma once
inline constexpr char kGitCommit[] = \"@commit@\";
inline constexpr long kCodeBytes = @bytes@;
")
