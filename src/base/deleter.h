#pragma once

namespace tg {

// Deleter for a unique_ptr to an object that a C library frees by `release`.
template <auto release>
struct Deleter {
  template <class T>
  void operator()(T* owned) const {
    release(owned);
  }
};

}  // namespace tg
