#include "jit/nvrtc.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>

#include <dlfcn.h>

#include "base/log.h"
#include "base/unique_handle.h"
#include "kiln/error.h"

namespace kiln::jit {
namespace {

constexpr int kMinimumMajor = 12;
constexpr int kMinimumMinor = 4;
// Newest first. The plain name comes last: it exists only where a toolkit for developers is installed.
constexpr std::array kFileNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

struct LibraryTraits {
  using Handle = void*;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle handle) noexcept { dlclose(handle); }
};
using UniqueLibrary = UniqueHandle<LibraryTraits>;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// /usr/local/cuda first, then /usr/local/cuda-13.0 and its like, the highest version first.
std::vector<std::filesystem::path> local_toolkits() {
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/local", ignored)) {
    if (entry.path().filename().string().rfind("cuda-", 0) == 0) folders.push_back(entry.path() / "lib64");
  }
  std::sort(folders.begin(), folders.end(), std::greater<>());
  folders.insert(folders.begin(), "/usr/local/cuda/lib64");
  return folders;
}

std::vector<std::filesystem::path> folders_to_search() {
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!executable.empty()) folders.push_back(executable.parent_path());
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment(name);
    if (!root.empty()) folders.push_back(std::filesystem::path(root) / "lib64");
  }
  for (auto& folder : local_toolkits()) folders.push_back(std::move(folder));
#ifdef KILN_NVRTC_DIR
  folders.emplace_back(KILN_NVRTC_DIR);
#endif
  return folders;
}

// Every name to try, in order. A bare name is left to the loader.
std::vector<std::string> candidates() {
  if (const std::string file = environment("KILN_NVRTC"); !file.empty()) return {file};
  std::vector<std::string> names(kFileNames.begin(), kFileNames.end());
  for (const auto& folder : folders_to_search()) {
    for (const char* file : kFileNames) {
      std::error_code ignored;
      const auto path = folder / file;
      if (std::filesystem::exists(path, ignored)) names.push_back(path.string());
    }
  }
  return names;
}

std::string not_found_message(const std::string& refusals) {
  std::string message = "no usable NVRTC (libnvrtc " + std::to_string(kMinimumMajor) + "." +
                        std::to_string(kMinimumMinor) + " or later) was found.";
  if (const std::string file = environment("KILN_NVRTC"); !file.empty()) {
    message += " KILN_NVRTC names " + file + ", so nothing else was tried.";
  } else {
    message += " Looked for";
    for (const char* name : kFileNames) message += std::string(" ") + name;
    message += " on the loader's path and in";
    for (const auto& folder : folders_to_search()) message += " " + folder.string();
    message += ".";
  }
  return message + " Install the CUDA toolkit's NVRTC, or set KILN_NVRTC to the file." + refusals;
}

std::string path_of(void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "libnvrtc";
}

// NVRTC opens its builtins by a bare name, which the loader finds only on its path or when it is already open.
void load_builtins(const Nvrtc& nvrtc) {
  const auto folder = std::filesystem::path(nvrtc.path()).parent_path();
  const std::string file = (folder / ("libnvrtc-builtins.so." + nvrtc.version())).string();
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    log("jit")->debug("{} is not there; NVRTC looks for its builtins itself", file);
  }
}

std::atomic<const Nvrtc*>& loaded_instance() {
  static std::atomic<const Nvrtc*> instance{nullptr};
  return instance;
}

}  // namespace

Nvrtc::Nvrtc(void* library) {
  std::string missing;
#define KILN_RESOLVE(name)                                        \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) missing += " " #name;
  KILN_RESOLVE(nvrtcVersion)
  KILN_RESOLVE(nvrtcCreateProgram)
  KILN_RESOLVE(nvrtcDestroyProgram)
  KILN_RESOLVE(nvrtcCompileProgram)
  KILN_RESOLVE(nvrtcAddNameExpression)
  KILN_RESOLVE(nvrtcGetLoweredName)
  KILN_RESOLVE(nvrtcGetCUBINSize)
  KILN_RESOLVE(nvrtcGetCUBIN)
  KILN_RESOLVE(nvrtcGetPTXSize)
  KILN_RESOLVE(nvrtcGetPTX)
  KILN_RESOLVE(nvrtcGetProgramLogSize)
  KILN_RESOLVE(nvrtcGetProgramLog)
  KILN_RESOLVE(nvrtcGetErrorString)
  KILN_RESOLVE(nvrtcGetNumSupportedArchs)
  KILN_RESOLVE(nvrtcGetSupportedArchs)
#undef KILN_RESOLVE
  if (!missing.empty()) throw Error(ErrorCode::not_found, "it lacks" + missing);
  if (nvrtcVersion(&major_, &minor_) != NVRTC_SUCCESS) throw Error(ErrorCode::not_found, "it tells no version");
  if (!at_least(kMinimumMajor, kMinimumMinor)) throw Error(ErrorCode::not_found, "it is version " + version());
  path_ = path_of(reinterpret_cast<void*>(nvrtcVersion));
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS) return;
  archs_.resize(static_cast<std::size_t>(count));
  if (nvrtcGetSupportedArchs(archs_.data()) != NVRTC_SUCCESS) archs_.clear();
}

const Nvrtc& Nvrtc::instance() {
  if (const Nvrtc* nvrtc = loaded_instance().load(std::memory_order_acquire)) return *nvrtc;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const Nvrtc* nvrtc = loaded_instance().load(std::memory_order_acquire)) return *nvrtc;
  std::string refusals;
  for (const std::string& name : candidates()) {
    UniqueLibrary library(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library) {
      const char* reason = dlerror();
      if (name.find('/') != std::string::npos) refusals += std::string(" Refused: ") + (reason ? reason : name) + ".";
      continue;
    }
    try {
      std::unique_ptr<const Nvrtc> nvrtc(new Nvrtc(library.get()));
      load_builtins(*nvrtc);
      log("jit")->debug("NVRTC {} from {}", nvrtc->version(), nvrtc->path());
      static_cast<void>(library.release());  // stays open: programs and its own threads outlive any owner
      loaded_instance().store(nvrtc.get(), std::memory_order_release);
      return *nvrtc.release();
    } catch (const Error& error) {
      refusals += " Refused: " + name + ": " + error.what() + ".";
    }
  }
  throw Error(ErrorCode::not_found, not_found_message(refusals));
}

bool Nvrtc::loaded() noexcept { return loaded_instance().load(std::memory_order_acquire) != nullptr; }

std::string Nvrtc::version() const { return std::to_string(major_) + "." + std::to_string(minor_); }

void check(nvrtcResult result, const char* call) {
  if (result == NVRTC_SUCCESS) return;
  throw Error(ErrorCode::compile_failed, std::string(call) + ": " + Nvrtc::instance().nvrtcGetErrorString(result), call,
              static_cast<int>(result));
}

}  // namespace kiln::jit
