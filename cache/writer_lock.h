// The lock that lets one process at a time write to, checkpoint, create or set aside the database: flock on
// "<database>.lock". SQLite locks its own writers too, but versions before 3.51.3 can damage a write-ahead log that one
// connection resets while another writes and checkpoints; with this lock only one connection ever does either.
// The kernel releases it when its holder dies. The holder's process id and start time stand in the file, so that a
// process that waits can say for whom. Not thread-safe: its owner holds a mutex around it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace kiln::cache {

class WriterLock {
 public:
  // Opens (and where needed creates) the lock file. Throws Error{io} when that fails or the file is not this user's
  // own.
  explicit WriterLock(const std::filesystem::path& database);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

  // Holds the lock while it lives. Converts to false where the wait ran out.
  class Held {
   public:
    Held() noexcept = default;
    explicit Held(int fd) noexcept : fd_(fd) {}
    Held(Held&& other) noexcept;
    Held& operator=(Held&& other) noexcept;
    ~Held();
    explicit operator bool() const noexcept { return fd_ >= 0; }

   private:
    int fd_ = -1;
  };

  // Waits up to `timeout`. After half a second the log names the holder; when the wait runs out it does so as a
  // warning, at most once a minute.
  Held acquire(std::chrono::milliseconds timeout);

  // "process 4711 since 12 s", as far as the file tells.
  std::string holder() const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::chrono::steady_clock::time_point quiet_until_{};
};

}  // namespace kiln::cache
