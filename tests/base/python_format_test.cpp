#include "base/python_format.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

// The expected strings are the output of CPython 3.11's repr().
TEST(PythonFormat, FloatsReadAsPythonPrintsThem) {
  EXPECT_EQ(py_repr(0.0), "0.0");
  EXPECT_EQ(py_repr(0.025), "0.025");
  EXPECT_EQ(py_repr(600.0), "600.0");
  EXPECT_EQ(py_repr(1e-8), "1e-08");
  EXPECT_EQ(py_repr(0.0001), "0.0001");
  EXPECT_EQ(py_repr(1.5e-5), "1.5e-05");
  EXPECT_EQ(py_repr(1e16), "1e+16");
  EXPECT_EQ(py_repr(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(py_repr(-0.1), "-0.1");
}

TEST(PythonFormat, BooleansAndListsReadAsPythonPrintsThem) {
  EXPECT_EQ(py_repr(true), "True");
  EXPECT_EQ(py_repr(std::vector<std::int64_t>{7, 8, 9, 10}), "[7, 8, 9, 10]");
  EXPECT_EQ(py_repr(std::vector<std::int64_t>{}), "[]");
}

}  // namespace
}  // namespace tg
