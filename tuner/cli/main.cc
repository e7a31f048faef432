// The `kiln` command: finds the subcommand and turns whatever ends it into an exit code.
#include <exception>
#include <iostream>

#include "base/process.h"
#include "jit/compile_pool.h"
#include "kiln/version.h"
#include "tuner/cli/commands.h"
#include "tuner/worker/gpu_worker.h"

namespace kiln::cli {
namespace {

int run_compile_worker(const Arguments&) { return jit::serve_compiles(kChannelFd); }
int run_gpu_worker(const Arguments&) { return tuner::serve_measurements(kChannelFd); }

int run(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == "--version") {
    std::cout << "kiln " << kVersion << '\n';
    return done;
  }
  return dispatch("kiln", "Bakes CUDA kernels to fit: compiles, tunes, remembers and answers.",
                  {{"devices", "the GPUs here, and those Kiln has a profile of", run_devices},
                   {"template", "list, show and check kernel templates", run_template},
                   {"compile", "compile one configuration and report what it uses", run_compile},
                   {"tune", "find the best configuration of each problem", run_tune},
                   {"query", "the best known configuration of a problem, and why", run_query},
                   {"bench", "time the known configurations against other libraries", run_bench},
                   {"model", "judge and refit the cost models by what was measured", run_model},
                   {"cache", "look after the database of tuned results", run_cache},
                   {"compile-worker", nullptr, run_compile_worker},
                   {"gpu-worker", nullptr, run_gpu_worker}},
                  arguments);
}

}  // namespace
}  // namespace kiln::cli

int main(int argc, char** argv) {
  try {
    const int code = kiln::cli::run(kiln::cli::Arguments(argv + 1, argv + argc));
    std::cout.flush();
    // A full disk behind `kiln … > file` must not look like success.
    return std::cout ? code : kiln::cli::failed;
  } catch (const kiln::Error& error) {
    return kiln::cli::report(error, "kiln");
  } catch (const std::exception& error) {
    std::cerr << "Error: " << error.what() << '\n';
    return kiln::cli::failed;
  }
}
