// Tunes one GEMM from a program, as `kiln tune` does. Argument: a GPU, an index, or a profile's name such as h200, for
// which the result is predicted instead of measured.
#include <chrono>
#include <cstdio>
#include <string>

#include "kiln/error.h"
#include "kiln/gemm.h"
#include "kiln/options.h"
#include "kiln/tuner.h"

namespace {

class PrintProgress : public kiln::TuneObserver {
 public:
  void progress(const std::string& stage, std::size_t done, std::size_t total) override {
    if (done == total) std::printf("%s: %zu done\n", stage.c_str(), total);
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    kiln::TuneOptions options;
    options.gpu = argc > 1 ? argv[1] : "";
    options.max_candidates = 4;
    options.budget = std::chrono::minutes(2);
    kiln::Tuner tuner(kiln::options_from_environment(), options);

    PrintProgress progress;
    const kiln::Problem problem = kiln::to_problem(kiln::Gemm{.m = 1024, .n = 1024, .k = 1024});
    for (const kiln::TuneResult& result : tuner.tune({problem}, progress)) {
      std::printf("%s %s: %.1f µs %s\n", result.template_name.c_str(), result.config.c_str(), result.time_us,
                  result.measured ? "measured" : "predicted");
      if (result.failed) return 1;
    }
    return 0;
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == kiln::ErrorCode::no_driver || error.code() == kiln::ErrorCode::no_device ? 77 : 1;
  }
}
