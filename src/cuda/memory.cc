#include "cuda/memory.h"

#include <utility>

#include "cuda/driver.h"

namespace kiln::cuda {

PrimaryContext::PrimaryContext(int ordinal) {
  check(driver().cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  check(driver().cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

PrimaryContext::~PrimaryContext() {
  log_failure(driver().cuDevicePrimaryCtxRelease(device_), "cuDevicePrimaryCtxRelease");
}

ContextScope::ContextScope(CUcontext context) { check(driver().cuCtxPushCurrent(context), "cuCtxPushCurrent"); }

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  log_failure(driver().cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) check(driver().cuMemAlloc(&pointer_, bytes), "cuMemAlloc");
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ != 0) log_failure(driver().cuMemFree(pointer_), "cuMemFree");
}

void StreamTraits::release(Handle stream) noexcept { log_failure(driver().cuStreamDestroy(stream), "cuStreamDestroy"); }

UniqueStream make_stream() {
  CUstream stream = nullptr;
  check(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return UniqueStream(stream);
}

void EventTraits::release(Handle event) noexcept { log_failure(driver().cuEventDestroy(event), "cuEventDestroy"); }

UniqueEvent make_event() {
  CUevent event = nullptr;
  check(driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
  return UniqueEvent(event);
}

float elapsed_ms(const UniqueEvent& start, const UniqueEvent& stop) {
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, start.get(), stop.get()), "cuEventElapsedTime");
  return milliseconds;
}

void GraphExecTraits::release(Handle graph) noexcept {
  log_failure(driver().cuGraphExecDestroy(graph), "cuGraphExecDestroy");
}

}  // namespace kiln::cuda
