// Sole ownership of a C handle. `Traits` names the handle type, its empty value and how to release it:
//   struct StreamTraits { using Handle = CUstream; static constexpr Handle kEmpty = nullptr;
//                         static void release(Handle) noexcept; };
// Move-only. Not thread-safe: one owner at a time.
#pragma once

#include <utility>

namespace kiln {

template <class Traits>
class UniqueHandle {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Handle handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Traits::kEmpty; }
  // Gives up ownership.
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, Traits::kEmpty); }
  void reset(Handle handle = Traits::kEmpty) noexcept {
    Handle old = std::exchange(handle_, handle);
    if (old != Traits::kEmpty) Traits::release(old);
  }

 private:
  Handle handle_ = Traits::kEmpty;
};

}  // namespace kiln
