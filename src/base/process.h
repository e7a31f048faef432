// A child process with a message channel: how the tuner and the compile pool run what may crash or hang.
//
// A child is started by posix_spawn (never a bare fork: CUDA and SQLite may be open) in its own process group, with one
// end of a socket pair as descriptor kChannelFd and every other descriptor but 0, 1 and 2 closed. Messages are CBOR
// values behind a 4-byte little-endian length. Not thread-safe: one thread at a time per Process or Channel.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kiln {

inline constexpr int kChannelFd = 3;

// One end of the socket pair.
class Channel {
 public:
  explicit Channel(int fd) noexcept : fd_(fd) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  // False when the other end is gone, or takes nothing for half a minute. Never raises SIGPIPE.
  bool send(const Json& message);
  enum class Status { message, timeout, closed };
  // Waits up to `timeout` for a whole message (negative: for ever). A malformed message counts as closed.
  Status receive(Json* message, std::chrono::milliseconds timeout);
  int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  std::string buffer_;
};

struct ExitStatus {
  bool signalled = false;
  int value = 0;  // exit code, or the signal's number; -1: unknown, since somebody else waited for the process
  std::string describe() const;  // "exit status 3", "signal 11 (Segmentation fault)"
};

class Process {
 public:
  struct Options {
    std::filesystem::path executable;
    std::vector<std::string> arguments;    // without argv[0]
    std::vector<std::string> environment;  // NAME=value, added to this process's own
    std::filesystem::path stderr_file;     // its stderr is appended to this; empty: inherited
  };
  // Throws Error{io} when it cannot be started.
  explicit Process(const Options& options);
  // Kills the child's process group if it still runs, and waits for it: seconds at most, for a wedged driver can keep
  // a killed process for ever.
  ~Process();
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;

  Channel& channel() noexcept { return channel_; }
  pid_t pid() const noexcept { return pid_; }
  // Empty while it runs. What it started itself ends with it.
  std::optional<ExitStatus> poll();
  // The same, once it has ended or `patience` is over.
  std::optional<ExitStatus> wait(std::chrono::milliseconds patience);
  // Closes the channel, waits `grace`, sends SIGTERM, waits `grace`, sends SIGKILL to its group, and waits up to
  // `grace` for the kernel to let go of it. Empty when it still does not end (a wedged driver).
  std::optional<ExitStatus> stop(std::chrono::milliseconds grace);

 private:
  Channel channel_{-1};
  pid_t pid_ = -1;
  std::optional<ExitStatus> status_;
};

// Called first in a child: starts a thread that ends this process as soon as the parent's end of the channel is
// closed, whatever the main thread is doing.
void die_with_parent(int channel_fd);

// The running executable's path.
std::filesystem::path self_executable();

}  // namespace kiln
