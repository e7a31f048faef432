// libcuda, opened at run time when first needed, so that a process without a driver can still query and compile.
// Thread-safe.
#pragma once

#include <cuda.h>

#include <string>

#include "kiln/error.h"

namespace kiln::cuda {

// Every driver function Kiln calls, by its own name. X(name)
// The formatter would indent a list of macro calls deeper at every pass.
// clang-format off
#define KILN_CUDA_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) \
  X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDeviceGetPCIBusId) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxSetCurrent) \
  X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemFree) \
  X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemGetInfo) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) \
  X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD32Async) \
  X(cuLibraryLoadData) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuKernelGetFunction) X(cuKernelGetAttribute) \
  X(cuKernelSetAttribute) X(cuLaunchKernelEx) X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveClusters) X(cuStreamCreate) \
  X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamIsCapturing) X(cuStreamBeginCapture) \
  X(cuStreamEndCapture) X(cuStreamGetCtx) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) \
  X(cuGraphDestroy) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) \
  X(cuEventElapsedTime) X(cuPointerGetAttribute)
// clang-format on

struct Driver {
#define KILN_DECLARE(name) decltype(&::name) name = nullptr;
  KILN_CUDA_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
  int version = 0;  // 13000 for 13.0
  std::string path;
};

// The process's driver, cuInit done. Throws Error{no_driver} when libcuda.so.1 is missing, too old (below 12.4) or
// cuInit fails, and Error{no_device} when cuInit finds no GPU; the message says which. A later call tries again.
const Driver& driver();
// False instead of an exception; for `kiln devices` and tests.
bool driver_available() noexcept;

// What the driver calls `result`: "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"; the
// number alone where no driver is loaded.
std::string describe(CUresult result);

// Throws for anything but success: out_of_memory for CUDA_ERROR_OUT_OF_MEMORY, no_device for no/invalid device,
// launch_failed otherwise; message "cuLaunchKernelEx: CUDA_ERROR_… (700): text".
void check(CUresult result, const char* call, SourcePlace where = SourcePlace::current());

// For destructors: logs anything but success. A driver that shuts down with the process is no failure.
void log_failure(CUresult result, const char* call) noexcept;

// Errors after which the context is unusable for ever (illegal address, hardware stack error, launch timeout, …).
bool is_sticky(CUresult result) noexcept;

}  // namespace kiln::cuda
