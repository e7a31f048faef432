// A loaded cubin and its kernels. Context-independent (cuLibrary), so one load serves every context of the process.
// Thread-safe: immutable after construction.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace kiln::cuda {

class Library {
 public:
  // Loads `cubin`. Throws Error{launch_failed}; the message says what the bytes are (target, kernels, or why they
  // are no cubin) and which driver refused them.
  explicit Library(std::string_view cubin);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Throws Error{not_found} naming the symbol.
  CUkernel kernel(const std::string& symbol) const;

 private:
  CUlibrary library_ = nullptr;
};

// Lets `kernel` use at least `bytes` of dynamic shared memory on `device`; needed above 48 KiB.
void allow_dynamic_shared(CUkernel kernel, int bytes, CUdevice device);
// Lets `kernel` be launched on `device` in clusters of more than 8 blocks, which not every GPU of an architecture can.
void allow_large_clusters(CUkernel kernel, CUdevice device);

}  // namespace kiln::cuda
