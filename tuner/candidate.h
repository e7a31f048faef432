// What is measured, as plain values that can cross a process boundary: code is compiled before it gets here, so that
// the process that runs it needs neither NVRTC nor the store. Thread-safe as plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kiln/config.h"
#include "kiln/problem.h"
#include "runtime/store.h"

namespace kiln::tuner {

// A cubin and the symbols of its kernels, in the order of the launches they belong to.
struct KernelCode {
  std::string cubin;
  std::vector<std::string> symbols;
};

// A template's configuration, compiled.
struct Candidate {
  std::string template_name;
  std::string template_digest;  // the worker refuses a candidate whose template reads differently there
  Config config;
  KernelCode code;
  std::size_t reference = 0;            // index into MeasureJob::references
  std::optional<double> checked_error;  // set: it has already been found right, with this error, in this run
};

// The kernel that computes the truth for some candidates of a job.
struct Reference {
  std::string template_name;
  std::string template_digest;
  Config config;
  bool own_launches = false;  // true: the [[check.launch]] of the candidate's own template
  KernelCode code;
};

// Candidates of one problem, to be checked and then timed together.
struct MeasureJob {
  Problem problem;
  std::vector<Candidate> candidates;
  std::vector<Reference> references;
  std::string check_cubin;                           // the kernels of templates/check/check.cuh …
  std::map<std::string, std::string> check_symbols;  // … name expression → symbol
  std::vector<std::string> peers;                    // libraries timed in the same rounds, by name
  int rounds = 5;                                    // batches per candidate
  bool cold = true;                                  // rotate over more buffers than the L2 holds; false: one set, warm
  bool screen = true;                                // leave a candidate that is far from the best with fewer rounds
  // A first look at many candidates: one check each, and batches of a quarter of the usual length.
  bool quick = false;
  std::uint64_t seed = 1;
  std::chrono::milliseconds candidate_deadline{15'000};
};

using Outcome = std::variant<Timing, Failure>;

// "sm90_gemm BK=64,BM=128,…"
std::string describe(const std::string& template_name, const Config& config);

}  // namespace kiln::tuner
