#include "base/process.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kiln/error.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
// Far above what anything here takes, for a machine that is busy.
constexpr milliseconds kSoon{30'000};

struct ChannelPair {
  Channel left{-1};
  Channel right{-1};
  ChannelPair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    left = Channel(ends[0]);
    right = Channel(ends[1]);
  }
};

Process shell(const std::string& script, std::vector<std::string> environment = {},
              const std::filesystem::path& stderr_file = {}) {
  return Process({.executable = "/bin/sh",
                  .arguments = {"-c", script},
                  .environment = std::move(environment),
                  .stderr_file = stderr_file});
}

Process helper(const std::string& mode) {
  return Process({.executable = KILN_COMPILE_HELPER, .arguments = {mode}, .environment = {}, .stderr_file = {}});
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "kiln_process_test_XXXXXX").string();
    const int fd = mkstemp(name.data());
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = name;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

bool process_exists(pid_t pid) {
  // A zombie that nobody has reaped yet is gone for our purpose.
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  stat >> number >> name >> state;
  return !state.empty() && state != "Z";
}

bool ends_within(pid_t pid, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (process_exists(pid) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return !process_exists(pid);
}

TEST(Channel, AMessageArrivesAsItWasSent) {
  ChannelPair pair;
  const Json sent = {{"text", "ü\n"}, {"numbers", {1, -2, 3.5}}, {"bytes", Json::binary({0, 255, 10})}};
  ASSERT_TRUE(pair.left.send(sent));
  Json received;
  ASSERT_EQ(pair.right.receive(&received, kSoon), Channel::Status::message);
  EXPECT_EQ(received, sent);
}

TEST(Channel, MessagesLargerThanTheSocketsBufferArriveWhole) {
  ChannelPair pair;
  const Json sent = Json::binary(std::vector<std::uint8_t>(std::size_t{8} << 20, 7));
  std::thread sender([&] { EXPECT_TRUE(pair.left.send(sent)); });
  Json received;
  EXPECT_EQ(pair.right.receive(&received, kSoon), Channel::Status::message);
  sender.join();
  EXPECT_EQ(received, sent);
}

TEST(Channel, TwoMessagesSentAtOnceAreReceivedOneByOne) {
  ChannelPair pair;
  pair.left.send(1);
  pair.left.send(2);
  Json received;
  ASSERT_EQ(pair.right.receive(&received, kSoon), Channel::Status::message);
  EXPECT_EQ(received, 1);
  ASSERT_EQ(pair.right.receive(&received, kSoon), Channel::Status::message);
  EXPECT_EQ(received, 2);
}

TEST(Channel, ReceiveTimesOutAndKeepsTheHalfOfAMessageItHas) {
  ChannelPair pair;
  const std::string bytes = std::string("\x02\x00\x00\x00\x18", 5);  // the number 42, one byte short
  ASSERT_EQ(write(pair.left.fd(), bytes.data(), bytes.size()), 5);
  Json received;
  EXPECT_EQ(pair.right.receive(&received, milliseconds(20)), Channel::Status::timeout);
  ASSERT_EQ(write(pair.left.fd(), "\x2a", 1), 1);
  ASSERT_EQ(pair.right.receive(&received, kSoon), Channel::Status::message);
  EXPECT_EQ(received, 42);
}

TEST(Channel, AMalformedMessageCountsAsClosed) {
  ChannelPair pair;
  ASSERT_EQ(write(pair.left.fd(), "\x01\x00\x00\x00\xff", 5), 5);
  Json received;
  EXPECT_EQ(pair.right.receive(&received, kSoon), Channel::Status::closed);
}

TEST(Channel, AnAbsurdLengthCountsAsClosed) {
  ChannelPair pair;
  ASSERT_EQ(write(pair.left.fd(), "\xff\xff\xff\xff", 4), 4);
  Json received;
  EXPECT_EQ(pair.right.receive(&received, kSoon), Channel::Status::closed);
}

TEST(Channel, TheOtherEndsDepartureIsNoticedOnBothWays) {
  ChannelPair pair;
  pair.right = Channel(-1);
  Json received;
  EXPECT_EQ(pair.left.receive(&received, kSoon), Channel::Status::closed);
  EXPECT_FALSE(pair.left.send(Json("lost")));
}

TEST(Channel, AnEmptyChannelIsClosed) {
  Channel none(-1);
  Json received;
  EXPECT_FALSE(none.send(1));
  EXPECT_EQ(none.receive(&received, kSoon), Channel::Status::closed);
}

TEST(Process, ExchangesMessagesWithItsChild) {
  Process child = helper("echo");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(child.channel().send({{"i", i}}));
    Json answer;
    ASSERT_EQ(child.channel().receive(&answer, kSoon), Channel::Status::message);
    EXPECT_EQ(answer["i"], i);
  }
  EXPECT_FALSE(child.poll());
  const auto status = child.stop(kSoon);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->describe(), "exit status 0");
}

TEST(Process, ReportsTheExitStatus) {
  const auto status = shell("exit 3").wait(kSoon);
  ASSERT_TRUE(status);
  EXPECT_FALSE(status->signalled);
  EXPECT_EQ(status->value, 3);
  EXPECT_EQ(status->describe(), "exit status 3");
}

TEST(Process, ReportsTheSignalThatEndedIt) {
  const auto status = shell("kill -SEGV $$").wait(kSoon);
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->signalled);
  EXPECT_EQ(status->describe(), "signal 11 (Segmentation fault)");
}

TEST(Process, AMissingExecutableIsAnError) {
  try {
    Process({.executable = "/nonexistent/kiln", .arguments = {}, .environment = {}, .stderr_file = {}});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/kiln"), std::string::npos) << error.what();
  }
}

TEST(Process, AddsToTheEnvironmentAndReplacesWhatHasTheSameName) {
  ASSERT_EQ(setenv("KILN_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("KILN_TEST_REPLACED", "old", 1), 0);
  const TemporaryFile file;
  const auto status = shell("echo $KILN_TEST_KEPT $KILN_TEST_REPLACED $KILN_TEST_NEW >&2",
                            {"KILN_TEST_REPLACED=new", "KILN_TEST_NEW=added"}, file.path())
                          .wait(kSoon);
  ASSERT_TRUE(status);
  EXPECT_EQ(read_file(file.path()), "kept new added\n");
}

TEST(Process, TheChildHasItsChannelAndNoOtherDescriptorOfTheParent) {
  const int leaked = fcntl(STDIN_FILENO, F_DUPFD, 100);  // without O_CLOEXEC, as a careless library would
  ASSERT_GE(leaked, 100);
  const TemporaryFile file;
  const auto status = shell("for fd in /proc/$$/fd/*; do echo ${fd##*/} >&2; done", {}, file.path()).wait(kSoon);
  close(leaked);
  ASSERT_TRUE(status);
  std::istringstream listed(read_file(file.path()));
  std::vector<int> descriptors;
  for (int fd = -1; listed >> fd;) descriptors.push_back(fd);
  EXPECT_NE(std::find(descriptors.begin(), descriptors.end(), kChannelFd), descriptors.end());
  EXPECT_EQ(std::find(descriptors.begin(), descriptors.end(), leaked), descriptors.end());
}

TEST(Process, TheChildLeadsAProcessGroupOfItsOwn) {
  Process child = helper("echo");
  EXPECT_EQ(getpgid(child.pid()), child.pid());
}

TEST(Process, DestructionEndsTheChildAndWhatItStarted) {
  const TemporaryFile file;
  pid_t child_pid = -1;
  pid_t grandchild = -1;
  {
    Process child = shell("sleep 1000 & echo $! >&2; wait", {}, file.path());
    child_pid = child.pid();
    for (int i = 0; i < 500 && grandchild < 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      std::istringstream text(read_file(file.path()));
      if (!(text >> grandchild)) grandchild = -1;
    }
    ASSERT_GT(grandchild, 0);
  }
  EXPECT_TRUE(ends_within(child_pid, kSoon));
  EXPECT_TRUE(ends_within(grandchild, kSoon));
}

TEST(Process, WhatAChildLeavesBehindEndsWithIt) {
  const TemporaryFile file;
  Process child = shell("sleep 1000 & echo $! >&2; exit 4", {}, file.path());
  const auto status = child.wait(kSoon);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->value, 4);
  EXPECT_TRUE(ends_within(std::stoi(read_file(file.path())), kSoon));
}

TEST(Process, StopKillsAChildThatIgnoresEverything) {
  Process child = helper("deaf");
  Json ready;
  ASSERT_EQ(child.channel().receive(&ready, kSoon), Channel::Status::message);
  const auto status = child.stop(milliseconds(500));
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->signalled);
  EXPECT_EQ(status->value, SIGKILL);
  EXPECT_TRUE(child.stop(milliseconds(500)));  // again: the same answer
}

TEST(Process, DieWithParentEndsABusyChildWhenTheChannelCloses) {
  Process child = helper("busy");
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(child.poll());
  child.channel() = Channel(-1);
  const auto status = child.wait(kSoon);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->describe(), "exit status 0");
}

TEST(Process, MovingHandsTheChildOver) {
  Process first = helper("echo");
  const pid_t pid = first.pid();
  Process second = std::move(first);
  EXPECT_EQ(second.pid(), pid);
  EXPECT_TRUE(second.channel().send(7));
  Process third = shell("exit 0");
  third = std::move(second);
  Json answer;
  EXPECT_EQ(third.channel().receive(&answer, kSoon), Channel::Status::message);
}

TEST(Process, KnowsItsOwnExecutable) { EXPECT_TRUE(std::filesystem::exists(self_executable())); }

}  // namespace
}  // namespace kiln
