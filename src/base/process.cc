#include "base/process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unique_handle.h"
#include "kiln/error.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kMaximumMessageBytes = std::uint32_t{1} << 30;
// A peer that takes nothing for this long is as good as gone.
constexpr milliseconds kSendPatience{30'000};
// How long a destructor waits for a killed child before it leaves it to the kernel.
constexpr milliseconds kReapPatience{5'000};
constexpr milliseconds kPollStep{2};

[[noreturn]] void throw_io(const std::string& what, int error) {
  throw Error(ErrorCode::io, what + ": " + std::strerror(error));
}

struct FileTraits {
  using Handle = int;
  static constexpr Handle kEmpty = -1;
  static void release(Handle fd) noexcept { close(fd); }
};
using UniqueFile = UniqueHandle<FileTraits>;

// Until `deadline`, rounded up; -1 for a deadline that never comes.
int milliseconds_left(std::optional<Clock::time_point> deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000'000));
}

// False when the deadline passes first.
bool wait_for(int fd, short events, std::optional<Clock::time_point> deadline) {
  while (true) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, milliseconds_left(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return true;  // the call that follows meets the error and says it
  }
}

std::uint32_t decode_length(const std::string& bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return length;
}

// posix_spawn's two option objects, destroyed on every path.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void require(int error, const char* call) const {
    if (error != 0) throw_io(call, error);
  }

  void pass_files(int channel, const std::filesystem::path& stderr_file) {
    require(posix_spawn_file_actions_adddup2(&files_, channel, kChannelFd), "posix_spawn_file_actions_adddup2");
    require(posix_spawn_file_actions_addclosefrom_np(&files_, kChannelFd + 1),
            "posix_spawn_file_actions_addclosefrom_np");
    if (stderr_file.empty()) return;
    require(posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, stderr_file.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                             0600),
            "posix_spawn_file_actions_addopen");
  }

  // A group of its own, and none of the signal settings the parent may have made for itself.
  void start_afresh() {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    require(posix_spawnattr_setpgroup(&attributes_, 0), "posix_spawnattr_setpgroup");
    require(posix_spawnattr_setsigmask(&attributes_, &none), "posix_spawnattr_setsigmask");
    require(posix_spawnattr_setsigdefault(&attributes_, &all), "posix_spawnattr_setsigdefault");
    require(
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
        "posix_spawnattr_setflags");
  }

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

std::string_view variable_name(std::string_view assignment) { return assignment.substr(0, assignment.find('=')); }

// This process's environment with `added` in place of variables of the same names.
std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> merged = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const std::string& assignment) {
      return variable_name(assignment) == variable_name(*entry);
    });
    if (!replaced) merged.emplace_back(*entry);
  }
  return merged;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

ExitStatus decode_status(int status) {
  if (WIFSIGNALED(status)) return ExitStatus{.signalled = true, .value = WTERMSIG(status)};
  return ExitStatus{.signalled = false, .value = WEXITSTATUS(status)};
}

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), buffer_(std::exchange(other.buffer_, {})) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

Channel::~Channel() {
  if (fd_ >= 0) close(fd_);
}

bool Channel::send(const Json& message) {
  if (fd_ < 0) return false;
  std::string bytes(kLengthBytes, '\0');
  Json::to_cbor(message, bytes);
  const std::size_t length = bytes.size() - kLengthBytes;
  if (length > kMaximumMessageBytes) return false;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd_, POLLOUT, Clock::now() + kSendPatience)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Channel::Status Channel::receive(Json* message, milliseconds timeout) {
  if (fd_ < 0) return Status::closed;
  std::optional<Clock::time_point> deadline;
  if (timeout.count() >= 0) deadline = Clock::now() + timeout;
  std::vector<char> chunk(std::size_t{64} << 10);
  while (true) {
    if (buffer_.size() >= kLengthBytes) {
      const std::size_t length = decode_length(buffer_);
      if (length > kMaximumMessageBytes) return Status::closed;
      if (buffer_.size() - kLengthBytes >= length) {
        const auto begin = buffer_.begin() + kLengthBytes;
        *message = Json::from_cbor(begin, begin + static_cast<std::ptrdiff_t>(length), true, false);
        buffer_.erase(0, kLengthBytes + length);
        return message->is_discarded() ? Status::closed : Status::message;
      }
    }
    if (!wait_for(fd_, POLLIN, deadline)) return Status::timeout;
    const ssize_t count = recv(fd_, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count > 0) {
      buffer_.append(chunk.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
      return Status::closed;
    }
  }
}

std::string ExitStatus::describe() const {
  if (!signalled) return value < 0 ? "an unknown exit status" : "exit status " + std::to_string(value);
  const char* words = sigdescr_np(value);
  return "signal " + std::to_string(value) + (words != nullptr ? std::string(" (") + words + ")" : "");
}

Process::Process(const Options& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_io("socketpair", errno);
  channel_ = Channel(ends[0]);
  const UniqueFile childs_end(ends[1]);

  SpawnPlan plan;
  plan.pass_files(childs_end.get(), options.stderr_file);
  plan.start_afresh();
  std::vector<std::string> arguments{options.executable.string()};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = merged_environment(options.environment);
  const int error = posix_spawn(&pid_, options.executable.c_str(), plan.files(), plan.attributes(),
                                pointers_to(arguments).data(), pointers_to(environment).data());
  if (error == 0) return;
  pid_ = -1;
  throw_io("cannot start " + options.executable.string(), error);
}

Process::Process(Process&& other) noexcept
    : channel_(std::move(other.channel_)),
      pid_(std::exchange(other.pid_, -1)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(channel_, other.channel_);
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

std::optional<ExitStatus> Process::poll() {
  if (pid_ < 0 || status_) return status_;
  // Looked at before it is reaped: while the leader is a zombie, its group's number cannot belong to another.
  siginfo_t info{};
  const int looked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (looked == 0 && info.si_pid == 0) return std::nullopt;
  if (looked == 0) kill(-pid_, SIGKILL);
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  // Somebody else reaped it, or SIGCHLD is ignored: how it ended is lost.
  status_ = reaped == pid_ ? decode_status(status) : ExitStatus{.signalled = false, .value = -1};
  return status_;
}

std::optional<ExitStatus> Process::wait(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (!poll() && pid_ >= 0 && Clock::now() < deadline) std::this_thread::sleep_for(kPollStep);
  return status_;
}

std::optional<ExitStatus> Process::stop(milliseconds grace) {
  if (pid_ < 0) return status_;
  channel_ = Channel(-1);
  if (wait(grace)) return status_;
  kill(-pid_, SIGTERM);
  if (wait(grace)) return status_;
  kill(-pid_, SIGKILL);
  return wait(grace);
}

Process::~Process() {
  if (pid_ < 0 || poll()) return;
  kill(-pid_, SIGKILL);
  if (wait(kReapPatience)) return;
  try {
    log("process")->error("process {} does not end after SIGKILL; it is left to the kernel", pid_);
  } catch (const std::exception&) {
    // A destructor has nowhere else to say it.
  }
}

void die_with_parent(int channel_fd) {
  // A duplicate, so that the descriptor stays this thread's whatever the main thread closes.
  const int fd = fcntl(channel_fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw_io("die_with_parent: the channel cannot be duplicated", errno);
  std::thread([fd] {
    // No event asked for: only a hang-up or an error ends the wait, a message does not.
    wait_for(fd, 0, std::nullopt);
    _exit(0);
  }).detach();
}

std::filesystem::path self_executable() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw Error(ErrorCode::io, "/proc/self/exe cannot be read: " + error.message());
  return path;
}

}  // namespace kiln
