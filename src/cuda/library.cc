#include "cuda/library.h"

#include "cuda/driver.h"
#include "jit/cubin.h"

namespace kiln::cuda {
namespace {

std::string describe_image(std::string_view cubin) {
  std::string problem;
  const auto info = jit::read_cubin(cubin, &problem);
  if (!info) return "the image is no cubin: " + problem;
  return "the cubin is for sm_" + std::to_string(info->sm) + " and holds " + std::to_string(info->kernels.size()) +
         " kernel(s)";
}

// The name of the current context's device and its compute capability; empty without a context.
std::string describe_current_device() {
  CUdevice device = 0;
  int major = 0;
  int minor = 0;
  const Driver& api = driver();
  if (api.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS) {
    return "";
  }
  return ", the current device has compute capability " + std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

Library::Library(std::string_view cubin) {
  const Driver& api = driver();
  // The driver reads as far as the image's own header says: a truncated image must not reach it.
  std::string problem;
  if (!jit::read_cubin(cubin, &problem)) {
    throw Error(ErrorCode::launch_failed, "cannot load a library: the image is no cubin: " + problem);
  }
  const CUresult result = api.cuLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) return;
  const ErrorCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::out_of_memory : ErrorCode::launch_failed;
  throw Error(code,
              "cuLibraryLoadData: " + describe(result) + "; " + describe_image(cubin) + ", the driver supports CUDA " +
                  std::to_string(api.version / 1000) + "." + std::to_string(api.version % 1000 / 10) +
                  describe_current_device(),
              "cuLibraryLoadData", static_cast<int>(result));
}

Library::~Library() { log_failure(driver().cuLibraryUnload(library_), "cuLibraryUnload"); }

CUkernel Library::kernel(const std::string& symbol) const {
  CUkernel kernel = nullptr;
  const CUresult result = driver().cuLibraryGetKernel(&kernel, library_, symbol.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    throw Error(ErrorCode::not_found, "the cubin holds no kernel named '" + symbol + "'", "cuLibraryGetKernel",
                static_cast<int>(result));
  }
  check(result, "cuLibraryGetKernel");
  return kernel;
}

void allow_dynamic_shared(CUkernel kernel, int bytes, CUdevice device) {
  // Only ever raised: another plan may launch the same kernel with more.
  int allowed = 0;
  check(driver().cuKernelGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, device),
        "cuKernelGetAttribute");
  if (bytes <= allowed) return;
  check(driver().cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes, kernel, device),
        "cuKernelSetAttribute");
}

void allow_large_clusters(CUkernel kernel, CUdevice device) {
  check(driver().cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel, device),
        "cuKernelSetAttribute");
}

}  // namespace kiln::cuda
