// Reading a cubin's ELF: is it whole, for which target, which kernels, what they use. No CUDA needed. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::jit {

struct CubinKernel {
  std::string symbol;
  int registers = 0;            // per thread
  int static_shared_bytes = 0;  // what the source declares, without the driver's reserved KiB
  int local_bytes = 0;          // per-thread frame in local memory
  int constant_bytes = 0;       // all banks, with the kernel's arguments and the driver's own
  int barriers = 0;             // named barriers in use
};

struct CubinInfo {
  int sm = 0;  // 90 for sm_90 and sm_90a
  std::vector<CubinKernel> kernels;
};

// Empty, with `*problem` saying why, when the bytes are not a whole CUDA ELF image. Never reads past the view.
std::optional<CubinInfo> read_cubin(std::string_view bytes, std::string* problem = nullptr);

}  // namespace kiln::jit
