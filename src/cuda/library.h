// A loaded cubin and its kernels. Context-independent (cuLibrary), so one load serves every context of the process.
// Thread-safe: immutable after construction.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace kiln::cuda {

class Library {
 public:
  // Loads `cubin`. Throws Error{launch_failed}; CUDA_ERROR_NO_BINARY_FOR_GPU and PTX/version errors are explained
  // (cubin's target, driver's version).
  explicit Library(std::string_view cubin);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Throws Error{not_found} naming the symbol.
  CUkernel kernel(const std::string& symbol) const;

 private:
  CUlibrary library_ = nullptr;
};

// Lets `kernel` use `bytes` of dynamic shared memory and, when asked, clusters over 8 blocks, on `device`.
void allow_dynamic_shared(CUkernel kernel, int bytes, CUdevice device);

}  // namespace kiln::cuda
