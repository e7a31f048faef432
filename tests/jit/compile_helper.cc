// The child of the process and compile-pool tests. Its first argument says what it does:
//   compile-worker   answers as `kiln compile-worker` does; with KILN_TEST_FAKE_COMPILER set it obeys the "source" of a
//                    request instead of compiling it (see fake_compiler)
//   echo             sends back every message
//   busy             waits for ever, with die_with_parent() called
//   deaf             waits for ever, ignores SIGTERM
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"
#include "jit/compile_pool.h"
#include "jit/compile_wire.h"

namespace {

using kiln::Channel;
using kiln::Json;

constexpr std::chrono::milliseconds kForEver{-1};

[[noreturn]] void wait_for_ever() {
  while (true) pause();
}

int echo() {
  Channel channel(kiln::kChannelFd);
  Json message;
  while (channel.receive(&message, kForEver) == Channel::Status::message) channel.send(message);
  return 0;
}

// Takes 64 MiB for good. The kernel touches the pages, not this process, whose every write a sanitizer would count.
void grow() {
  void* pages =
      mmap(nullptr, std::size_t{64} << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (pages == MAP_FAILED) std::abort();
}

// The source is the order: "crash", "hang", "exit", "garbage", "grow" (takes 64 MiB for good), "nap", "fresh"
// (crashes unless it is the first). Whatever it is, an answer carries this process's id as its log.
int fake_compiler() {
  kiln::die_with_parent(kiln::kChannelFd);
  Channel channel(kiln::kChannelFd);
  Json message;
  for (bool first = true; channel.receive(&message, kForEver) == Channel::Status::message; first = false) {
    const std::string order = kiln::jit::request_from_json(message).source;
    if (order == "crash" || (order == "fresh" && !first)) raise(SIGKILL);
    if (order == "hang") wait_for_ever();
    if (order == "exit") return 3;
    if (order == "grow") grow();
    if (order == "nap") std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (order == "garbage") {
      channel.send(Json("not an outcome"));
      continue;
    }
    kiln::jit::CompiledUnit unit;
    unit.cubin = order;
    unit.log = std::to_string(getpid());
    channel.send(kiln::jit::to_json(kiln::jit::CompileOutcome(unit)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "compile-worker") {
    return std::getenv("KILN_TEST_FAKE_COMPILER") != nullptr ? fake_compiler()
                                                             : kiln::jit::serve_compiles(kiln::kChannelFd);
  }
  if (mode == "echo") return echo();
  if (mode == "busy") {
    kiln::die_with_parent(kiln::kChannelFd);
    wait_for_ever();
  }
  if (mode == "deaf") {
    std::signal(SIGTERM, SIG_IGN);
    Channel(kiln::kChannelFd).send(Json("ready"));
    wait_for_ever();
  }
  return 2;
}
