#include "cache/writer_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cache/file_guard.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSayWhoAfter{500};
constexpr std::chrono::minutes kQuiet{1};

// One fixed-width line, so that a shorter one leaves nothing of a longer one behind.
void record_holder(int fd) {
  std::array<char, 64> line{};
  const int length = std::snprintf(line.data(), line.size(), "%-10ld %-20lld\n", static_cast<long>(getpid()),
                                   static_cast<long long>(std::time(nullptr)));
  // Only for people: on a full disk the lock holds all the same.
  [[maybe_unused]] const ssize_t written = pwrite(fd, line.data(), static_cast<std::size_t>(length), 0);
}

}  // namespace

WriterLock::WriterLock(const std::filesystem::path& database) : path_(database) {
  path_ += ".lock";
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) {
    throw Error(ErrorCode::io, "cannot open the lock file " + path_.string() + ": " + std::strerror(errno), "open",
                errno);
  }
  struct stat status {};
  fstat(fd_, &status);
  if (const std::string reason = distrust(status); !reason.empty()) {
    close(fd_);
    throw Error(ErrorCode::io, "the lock file " + path_.string() + " " + reason);
  }
}

WriterLock::~WriterLock() { close(fd_); }

WriterLock::Held::Held(Held&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

WriterLock::Held& WriterLock::Held::operator=(Held&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

WriterLock::Held::~Held() {
  if (fd_ >= 0) flock(fd_, LOCK_UN);
}

WriterLock::Held WriterLock::acquire(std::chrono::milliseconds timeout) {
  const Clock::time_point start = Clock::now();
  std::chrono::microseconds pause{100};
  bool said = false;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    if (errno != EWOULDBLOCK && errno != EINTR) {
      log("cache")->warn("cannot lock {}: {}", path_.string(), std::strerror(errno));
      return Held();
    }
    if (waited >= timeout) {
      const bool quiet = Clock::now() < quiet_until_;
      log("cache")->log(quiet ? spdlog::level::debug : spdlog::level::warn,
                        "gave up writing after {} ms: {} is held by {}", waited.count(), path_.string(), holder());
      if (!quiet) quiet_until_ = Clock::now() + kQuiet;
      return Held();
    }
    if (!said && waited >= kSayWhoAfter) {
      said = true;
      log("cache")->info("waiting for {}, held by {}", path_.string(), holder());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, std::chrono::milliseconds(2));
  }
  record_holder(fd_);
  return Held(fd_);
}

std::string WriterLock::holder() const {
  std::array<char, 64> line{};
  if (pread(fd_, line.data(), line.size() - 1, 0) <= 0) return "an unknown process";
  long pid = 0;
  long long since = 0;
  if (std::sscanf(line.data(), "%ld %lld", &pid, &since) != 2) return "an unknown process";
  const long long age = std::max<long long>(0, static_cast<long long>(std::time(nullptr)) - since);
  return "process " + std::to_string(pid) + " since " + std::to_string(age) + " s";
}

}  // namespace kiln::cache
