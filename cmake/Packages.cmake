# Debian packages. Header-only or static where that does not slow down compilation, so that the program runs on
# machines without these packages.
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(xxhash REQUIRED libxxhash)  # its header alone
find_package(cxxopts REQUIRED)
# libevent's HTTP server, linked statically; pkg-config names the shared libraries.
pkg_check_modules(libevent_extra REQUIRED libevent_extra libevent_core)
find_library(LIBEVENT_EXTRA libevent_extra.a HINTS ${libevent_extra_LIBRARY_DIRS} REQUIRED)
find_library(LIBEVENT_CORE libevent_core.a HINTS ${libevent_extra_LIBRARY_DIRS} REQUIRED)
add_library(libevent INTERFACE)
target_link_libraries(libevent INTERFACE ${LIBEVENT_EXTRA} ${LIBEVENT_CORE})
target_include_directories(libevent SYSTEM INTERFACE ${libevent_extra_INCLUDE_DIRS})
# Static for the same reason as libevent: few systems have the shared libraries.
pkg_check_modules(libbrotli REQUIRED libbrotlienc libbrotlidec)
add_library(libbrotli INTERFACE)
foreach(part IN ITEMS enc dec common)
  find_library(BROTLI_${part} libbrotli${part}.a HINTS ${libbrotli_LIBRARY_DIRS} REQUIRED)
  target_link_libraries(libbrotli INTERFACE ${BROTLI_${part}})
endforeach()
target_include_directories(libbrotli SYSTEM INTERFACE ${libbrotli_INCLUDE_DIRS})
pkg_check_modules(libutf8proc REQUIRED libutf8proc)
find_library(UTF8PROC libutf8proc.a HINTS ${libutf8proc_LIBRARY_DIRS} REQUIRED)
find_path(PROTOZERO protozero/pbf_writer.hpp REQUIRED)  # headers alone
# Every Debian system has these shared libraries, because dpkg uses them.
find_package(LibLZMA REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
if(TRAIN_GPT_TESTS)
  find_package(GTest REQUIRED)
endif()

# fmt as a shared library: header-only, it adds 3 s to every file that formats. The wheel's include folder has the
# headers of another fmt version without a library; Debian's headers are found first.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt_include)
file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/fmt_include/fmt SYMBOLIC)
add_library(fmt_library INTERFACE)
target_include_directories(fmt_library INTERFACE ${CMAKE_BINARY_DIR}/fmt_include)
target_link_libraries(fmt_library INTERFACE fmt::fmt)
