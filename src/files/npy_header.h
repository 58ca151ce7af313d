#pragma once
// Header of NumPy's .npy files, versions 1.0 to 3.0: the magic number, the version, the length of a
// Python dictionary and its text, {'descr': '<u2', 'fortran_order': False, 'shape': (3,)}. The
// elements follow.
#include <cstdint>
#include <string>
#include <vector>

#include "files/file.h"

namespace tg {

struct NpyHeader {
  std::string dtype;  // as NumPy names it, such as "<u2"; empty: a structured dtype
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;  // size of the header: the offset of the elements
};

bool begins_as_npy(const File& file);
// Throws Error(bad_data) if the file is no .npy file, is truncated, has another version or no
// dictionary of these three keys, and Error(io).
NpyHeader read_npy_header(const File& file);

}  // namespace tg
