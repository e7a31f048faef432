#include "tuner/worker/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "kiln/error.h"

namespace kiln::tuner {
namespace {

std::string holder_of(int fd) {
  char text[128] = {};
  const ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "a process that has not said its name yet";
}

void write_holder(int fd) {
  const std::string text =
      fmt::format("process {} since {:%Y-%m-%d %H:%M:%S}", getpid(), fmt::localtime(std::time(nullptr)));
  // For people only: a lock without its holder's name still locks.
  if (ftruncate(fd, 0) == 0) static_cast<void>(pwrite(fd, text.data(), text.size(), 0) >= 0);
}

}  // namespace

GpuLock::GpuLock(const std::string& gpu_uuid, const Wait& wait, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ("kiln-" + gpu_uuid + ".lock");
  // Every user of the machine takes the same lock, so anyone may open the file; it holds nothing worth protecting.
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) throw Error(ErrorCode::io, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  static_cast<void>(fchmod(fd_, 0666) == 0);

  const auto end = std::chrono::steady_clock::now() + wait.limit;
  bool told = false;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK && error != EINTR) {
      close(fd_);
      throw Error(ErrorCode::io, fmt::format("cannot lock {}: {}", path.string(), std::strerror(error)));
    }
    const std::string holder = holder_of(fd_);
    if (std::chrono::steady_clock::now() >= end) {
      close(fd_);
      throw Error(ErrorCode::io, fmt::format("GPU {} is in use by {} ({}); wait for it, or tune another GPU", gpu_uuid,
                                             holder, path.string()));
    }
    if (!told && wait.told) wait.told(fmt::format("waiting for GPU {}: {} holds it", gpu_uuid, holder));
    told = true;
    if (wait.stop && wait.stop()) {
      close(fd_);
      throw Error(ErrorCode::interrupted, "stopped while waiting for GPU " + gpu_uuid);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  write_holder(fd_);
}

GpuLock::~GpuLock() { close(fd_); }

}  // namespace kiln::tuner
