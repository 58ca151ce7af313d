# Debian's packages. Header-only or static where possible: a build runs on machines without them.
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(xxhash REQUIRED libxxhash)  # its header alone
find_package(cxxopts REQUIRED)
# The HTTP server of libevent, statically: pkg-config names its shared libraries.
pkg_check_modules(libevent_extra REQUIRED libevent_extra libevent_core)
find_library(LIBEVENT_EXTRA libevent_extra.a HINTS ${libevent_extra_LIBRARY_DIRS} REQUIRED)
find_library(LIBEVENT_CORE libevent_core.a HINTS ${libevent_extra_LIBRARY_DIRS} REQUIRED)
add_library(libevent INTERFACE)
target_link_libraries(libevent INTERFACE ${LIBEVENT_EXTRA} ${LIBEVENT_CORE})
target_include_directories(libevent SYSTEM INTERFACE ${libevent_extra_INCLUDE_DIRS})
find_path(PROTOZERO protozero/pbf_writer.hpp REQUIRED)  # headers alone
# Every Debian has their shared libraries: dpkg unpacks with them.
find_package(LibLZMA REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
if(TRAIN_GPT_TESTS)
  find_package(GTest REQUIRED)
endif()

# fmt and spdlog without their shared libraries. A build with sanitizers runs where it was made and links
# fmt's: a file without LibTorch then compiles in 2 s instead of 9.
add_library(fmt_headers INTERFACE)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  target_link_libraries(fmt_headers INTERFACE fmt::fmt)
else()
  target_compile_definitions(fmt_headers INTERFACE FMT_HEADER_ONLY=1)
endif()
