// What `kiln query` costs as a whole process, from its start to its exit, for a GPU that need not be here. The database
// is whatever KILN_CACHE names.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/process.h"

namespace {

// Runs the `kiln` beside this program with its output thrown away. Returns its exit status, or −1.
int run_kiln(const std::vector<std::string>& arguments) {
  std::string program = (kiln::self_executable().parent_path() / "kiln").string();
  std::vector<char*> argv = {program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

void measure(benchmark::State& state, const std::vector<std::string>& arguments) {
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const int code = run_kiln(arguments);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (code != 0) {
      state.SkipWithError(("kiln exited with " + std::to_string(code)).c_str());
      return;
    }
  }
}

// The floor: a process that starts, says its version and ends.
void Version(benchmark::State& state) { measure(state, {"--version"}); }

void Query(benchmark::State& state) {
  measure(state, {"query", "--gpu", "h200", "--problem", "m=4096,n=4096,k=4096,dtype=bf16"});
}

void QueryExplained(benchmark::State& state) {
  measure(state, {"query", "--gpu", "h200", "--problem", "m=4096,n=4096,k=4096,dtype=bf16", "--explain"});
}

BENCHMARK(Version)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Query)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(QueryExplained)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
