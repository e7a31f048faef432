#include "cuda/driver.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <dlfcn.h>

#include "base/log.h"
#include "base/unique_handle.h"

namespace kiln::cuda {
namespace {

constexpr int kMinimumVersion = 12040;

struct LibraryTraits {
  using Handle = void*;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle handle) noexcept { dlclose(handle); }
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string with_number(CUresult result, const std::string& text) {
  return text + " (" + std::to_string(static_cast<int>(result)) + ")";
}

std::string describe_with(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName == nullptr || driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return with_number(result, "CUDA error");
  }
  std::string message = with_number(result, name);
  if (driver.cuGetErrorString(result, &text) == CUDA_SUCCESS && text != nullptr) message += std::string(": ") + text;
  return message;
}

template <class Function>
void resolve(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

std::string loaded_path(void* library) {
  Dl_info info{};
  void* symbol = dlsym(library, "cuInit");
  return symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "libcuda.so.1";
}

std::unique_ptr<const Driver> load() {
  UniqueHandle<LibraryTraits> library(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!library) {
    const char* reason = dlerror();
    throw Error(ErrorCode::no_driver, std::string("the NVIDIA driver's libcuda.so.1 cannot be loaded (") +
                                          (reason != nullptr ? reason : "no reason given") +
                                          "); install the driver, or mount it into the container");
  }
  auto driver = std::make_unique<Driver>();
  driver->path = loaded_path(library.get());

  // The version comes first: an old driver lacks functions, and its age is what a person must hear of.
  resolve(library.get(), "cuDriverGetVersion", driver->cuDriverGetVersion);
  if (driver->cuDriverGetVersion == nullptr || driver->cuDriverGetVersion(&driver->version) != CUDA_SUCCESS) {
    throw Error(ErrorCode::no_driver, driver->path + " does not tell its version; it is no usable NVIDIA driver");
  }
  if (driver->version < kMinimumVersion) {
    throw Error(ErrorCode::no_driver, driver->path + " supports CUDA " + version_text(driver->version) +
                                          "; Kiln needs a driver for CUDA " + version_text(kMinimumVersion) +
                                          " or later");
  }

// Two levels, so that cuda.h's macros (cuMemAlloc → cuMemAlloc_v2) are expanded before the name becomes text.
#define KILN_TEXT(name) #name
#define KILN_RESOLVE(name) resolve(library.get(), KILN_TEXT(name), driver->name);
  KILN_CUDA_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE
  // cuda.h from 12.8 on names a second version with the same signature; a driver for 12.4 has only the first.
  if (driver->cuEventElapsedTime == nullptr) resolve(library.get(), "cuEventElapsedTime", driver->cuEventElapsedTime);

  std::string missing;
#define KILN_LIST_MISSING(name) \
  if (driver->name == nullptr) missing += " " KILN_TEXT(name);
  KILN_CUDA_FUNCTIONS(KILN_LIST_MISSING)
#undef KILN_LIST_MISSING
#undef KILN_TEXT
  if (!missing.empty()) {
    throw Error(ErrorCode::no_driver, driver->path + " (CUDA " + version_text(driver->version) + ") lacks" + missing);
  }

  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS) {
    const ErrorCode code = result == CUDA_ERROR_NO_DEVICE ? ErrorCode::no_device : ErrorCode::no_driver;
    throw Error(code,
                "cuInit: " + describe_with(*driver, result) + " [" + driver->path + ", CUDA " +
                    version_text(driver->version) + "]",
                "cuInit", static_cast<int>(result));
  }
  log("cuda")->debug("driver {} for CUDA {}", driver->path, version_text(driver->version));
  static_cast<void>(library.release());  // stays loaded: contexts and threads of the driver outlive any owner
  return driver;
}

// Set once, never cleared: loaded functions stay valid until the process ends, destructors of statics included.
std::atomic<const Driver*>& loaded_driver() {
  static std::atomic<const Driver*> driver{nullptr};
  return driver;
}

}  // namespace

const Driver& driver() {
  if (const Driver* loaded = loaded_driver().load(std::memory_order_acquire)) return *loaded;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const Driver* loaded = loaded_driver().load(std::memory_order_acquire)) return *loaded;
  const Driver* loaded = load().release();
  loaded_driver().store(loaded, std::memory_order_release);
  return *loaded;
}

bool driver_available() noexcept {
  try {
    driver();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string describe(CUresult result) {
  const Driver* loaded = loaded_driver().load(std::memory_order_acquire);
  return loaded != nullptr ? describe_with(*loaded, result) : with_number(result, "CUDA error");
}

void check(CUresult result, const char* call, SourcePlace where) {
  if (result == CUDA_SUCCESS) return;
  ErrorCode code = ErrorCode::launch_failed;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) code = ErrorCode::out_of_memory;
  if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_INVALID_DEVICE) code = ErrorCode::no_device;
  throw Error(code, std::string(call) + ": " + describe(result), call, static_cast<int>(result), where);
}

void log_failure(CUresult result, const char* call) noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  try {
    log("cuda")->warn("{}: {}", call, describe(result));
  } catch (const std::exception&) {
    // A destructor has nowhere else to say it.
  }
}

bool is_sticky(CUresult result) noexcept {
  // By number where the name is younger than the oldest toolkit Kiln compiles with.
  constexpr int kContained = 226;
  constexpr int kTensorMemoryLeak = 721;
  switch (static_cast<int>(result)) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case kContained:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case kTensorMemoryLeak:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace kiln::cuda
