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
  // Waits up to `limit` for the lock; `waiting` is told once who holds it, and since when. `folder`: where the lock
  // files are. Throws Error{io} naming holder and file when the limit passes or the file cannot be used.
  GpuLock(const std::string& gpu_uuid, std::chrono::milliseconds limit,
          const std::function<void(const std::string&)>& waiting,
          const std::filesystem::path& folder = std::filesystem::temp_directory_path());
  ~GpuLock();
  GpuLock(const GpuLock&) = delete;
  GpuLock& operator=(const GpuLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace kiln::tuner
