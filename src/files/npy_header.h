#pragma once
// The header of NumPy's .npy files, of the versions 1.0 to 3.0: the magic, the version, the length
// of a Python dictionary and its text, {'descr': '<u2', 'fortran_order': False, 'shape': (3,)}. The
// elements follow.
#include <cstdint>
#include <string>
#include <vector>

#include "files/file.h"

namespace tg {

struct NpyHeader {
  std::string dtype;  // as NumPy names it, such as "<u2"; empty: a structure of several
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;  // of the header: where the elements begin
};

bool begins_as_npy(const File& file);
// Errors: bad_data (no such file, cut short, another version, no dictionary of these three), io.
NpyHeader read_npy_header(const File& file);

}  // namespace tg
