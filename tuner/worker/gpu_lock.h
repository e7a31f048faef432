// One measuring program per GPU: an advisory lock file named by the GPU's UUID in the temporary folder, which the
// kernel releases with the process. Not thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace kiln::tuner {

class GpuLock {
 public:
  struct Wait {
    std::chrono::milliseconds limit{0};
    std::function<void(const std::string&)> told = {};  // once, who holds the lock and since when
    std::function<bool()> stop = {};                    // asked often; true gives up
  };

  // Waits for the lock as `wait` says. `folder`: where the lock files are. Throws Error{io} naming holder and file when
  // the limit passes or the file cannot be used, Error{interrupted} when stopped.
  GpuLock(const std::string& gpu_uuid, const Wait& wait,
          const std::filesystem::path& folder = std::filesystem::temp_directory_path());
  ~GpuLock();
  GpuLock(const GpuLock&) = delete;
  GpuLock& operator=(const GpuLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace kiln::tuner
