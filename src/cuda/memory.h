// RAII over device memory, streams, events, graphs and the primary context. Not thread-safe: one owner at a time.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "base/unique_handle.h"

namespace kiln::cuda {

// The primary context of a device, retained; released with the last owner.
class PrimaryContext {
 public:
  explicit PrimaryContext(int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  CUcontext get() const noexcept { return context_; }
  CUdevice device() const noexcept { return device_; }

 private:
  CUdevice device_ = -1;
  CUcontext context_ = nullptr;
};

// Makes `context` current for this scope and restores what was current.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

// Device memory of the current context. Zero bytes is a null pointer, not an error.
class DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  // Throws Error{out_of_memory}.
  explicit DeviceBuffer(std::size_t bytes);
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;
  ~DeviceBuffer();
  CUdeviceptr get() const noexcept { return pointer_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_ = 0;
};

struct StreamTraits {
  using Handle = CUstream;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle) noexcept;
};
using UniqueStream = UniqueHandle<StreamTraits>;
// A non-blocking stream of the current context.
UniqueStream make_stream();

struct EventTraits {
  using Handle = CUevent;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle) noexcept;
};
using UniqueEvent = UniqueHandle<EventTraits>;
UniqueEvent make_event();
// Milliseconds between two recorded events that have completed.
float elapsed_ms(const UniqueEvent& start, const UniqueEvent& stop);

struct GraphExecTraits {
  using Handle = CUgraphExec;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle) noexcept;
};
using UniqueGraphExec = UniqueHandle<GraphExecTraits>;

}  // namespace kiln::cuda
