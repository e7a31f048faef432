// The little of the CUDA driver API that the examples need, opened at run time, so that they build on machines without
// CUDA. An application with the CUDA toolkit uses <cuda.h> or the runtime API instead; Kiln takes pointers and streams
// of either. Errors end the program. Single-threaded.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace example {

// Device 0 with its primary context current.
class Driver {
 public:
  Driver() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) {
      std::puts("skipped: there is no NVIDIA driver here");
      std::exit(kSkipped);
    }
    int count = 0;
    int device = 0;
    void* context = nullptr;
    if (call<int(unsigned)>("cuInit")(0) != 0 || call<int(int*)>("cuDeviceGetCount")(&count) != 0 || count == 0) {
      std::puts("skipped: there is no GPU here");
      std::exit(kSkipped);
    }
    check(call<int(int*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    check(call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
    check(call<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  }

  // Device memory holding `values`; it lives as long as the process.
  template <class T>
  void* upload(const std::vector<T>& values) const {
    unsigned long long address = 0;
    const std::size_t bytes = values.size() * sizeof(T);
    check(call<int(unsigned long long*, std::size_t)>("cuMemAlloc_v2")(&address, bytes), "cuMemAlloc");
    check(call<int(unsigned long long, const void*, std::size_t)>("cuMemcpyHtoD_v2")(address, values.data(), bytes),
          "cuMemcpyHtoD");
    return reinterpret_cast<void*>(address);
  }

  template <class T>
  std::vector<T> download(const void* source, std::size_t count) const {
    std::vector<T> values(count);
    const auto address = reinterpret_cast<unsigned long long>(source);
    check(
        call<int(void*, unsigned long long, std::size_t)>("cuMemcpyDtoH_v2")(values.data(), address, count * sizeof(T)),
        "cuMemcpyDtoH");
    return values;
  }

  void synchronize() const { check(call<int()>("cuCtxSynchronize")(), "cuCtxSynchronize"); }

  static constexpr int kSkipped = 77;  // what the tests of the examples take for "skipped"

 private:
  template <class Signature>
  Signature* call(const char* name) const {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }
  static void check(int result, const char* what) {
    if (result == 0) return;
    std::fprintf(stderr, "%s failed with CUDA error %d\n", what, result);
    std::exit(1);
  }

  void* library_ = nullptr;
};

}  // namespace example
