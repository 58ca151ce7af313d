#pragma once

namespace tg {

// The deleter of a unique_ptr to what a C library frees by `release`.
template <auto release>
struct Deleter {
  template <class T>
  void operator()(T* owned) const {
    release(owned);
  }
};

}  // namespace tg
