// libnvrtc, opened at run time when first needed. Looked for, in order: $KILN_NVRTC (a file), the loader's path, beside
// the running executable, $CUDA_HOME and $CUDA_PATH lib64, /usr/local/cuda*/lib64, the folder found at build time.
// Its builtins library is loaded from the same folder before the first compile. At least NVRTC 12.4. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include <nvrtc.h>

namespace kiln::jit {

class Nvrtc {
 public:
  // The process's one NVRTC. Throws Error{not_found} naming every place tried; a later call tries again.
  static const Nvrtc& instance();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;
  // Whether instance() has loaded the library in this process: for tests and for `kiln devices`.
  static bool loaded() noexcept;

  const std::string& path() const noexcept { return path_; }
  int major() const noexcept { return major_; }
  int minor() const noexcept { return minor_; }
  // "13.0"
  std::string version() const;
  bool at_least(int major, int minor) const noexcept { return major_ != major ? major_ > major : minor_ >= minor; }
  // e.g. {75, 80, 86, 89, 90, 100, …}: what nvrtcGetSupportedArchs answers.
  const std::vector<int>& supported_archs() const noexcept { return archs_; }

  // The library's functions, by their own names.
  decltype(&::nvrtcCreateProgram) nvrtcCreateProgram = nullptr;
  decltype(&::nvrtcDestroyProgram) nvrtcDestroyProgram = nullptr;
  decltype(&::nvrtcCompileProgram) nvrtcCompileProgram = nullptr;
  decltype(&::nvrtcAddNameExpression) nvrtcAddNameExpression = nullptr;
  decltype(&::nvrtcGetLoweredName) nvrtcGetLoweredName = nullptr;
  decltype(&::nvrtcGetCUBINSize) nvrtcGetCUBINSize = nullptr;
  decltype(&::nvrtcGetCUBIN) nvrtcGetCUBIN = nullptr;
  decltype(&::nvrtcGetPTXSize) nvrtcGetPTXSize = nullptr;
  decltype(&::nvrtcGetPTX) nvrtcGetPTX = nullptr;
  decltype(&::nvrtcGetProgramLogSize) nvrtcGetProgramLogSize = nullptr;
  decltype(&::nvrtcGetProgramLog) nvrtcGetProgramLog = nullptr;
  decltype(&::nvrtcGetErrorString) nvrtcGetErrorString = nullptr;
  decltype(&::nvrtcVersion) nvrtcVersion = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) nvrtcGetNumSupportedArchs = nullptr;
  decltype(&::nvrtcGetSupportedArchs) nvrtcGetSupportedArchs = nullptr;

 private:
  // Takes the functions of an open library. Throws Error{not_found} when it is too old or lacks one.
  explicit Nvrtc(void* library);
  std::string path_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> archs_;
};

// Throws Error{compile_failed} unless `result` is success.
void check(nvrtcResult result, const char* call);

}  // namespace kiln::jit
