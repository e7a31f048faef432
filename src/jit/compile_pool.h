// A pool of compile processes: NVRTC serialises the threads of one process, processes scale.
//
// Each process is this program's helper (`kiln compile-worker`, see serve_compiles), started by exec in its own process
// group; it ends when its parent does. A process is replaced after `jobs_per_process` jobs, above `memory_limit_bytes`,
// and when a compile outlives `deadline`; that one compile then is a CompileFailure, the others go on.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>

#include "jit/compile.h"

namespace kiln::jit {

struct CompilePoolOptions {
  std::filesystem::path helper;  // the executable that answers `compile-worker` on base/process.h's channel
  int num_processes = 0;         // 0: from cores and free memory (about 1 GiB each)
  int jobs_per_process = 500;
  std::size_t memory_limit_bytes = std::size_t{4} << 30;
  std::chrono::milliseconds deadline{60'000};
};

class CompilePool {
 public:
  explicit CompilePool(CompilePoolOptions options);
  // Cancels what is queued, ends the processes, waits for them.
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Processes start with the first requests. The future never throws: a process that dies, hangs or cannot start, and
  // what compile() would throw, give a CompileFailure saying so.
  std::future<CompileOutcome> submit(CompileRequest request);
  int num_processes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The process count for this machine: min(usable cores, free memory / 1 GiB), at least 1. Heeds CPU affinity and the
// memory limit of a container.
int default_compile_processes();

// The helper's side: answers compile requests on file descriptor `fd` until it closes. Returns the exit status.
int serve_compiles(int fd);

}  // namespace kiln::jit
