// Rows that the tests of every Store share. Pure functions; thread-safe.
#pragma once

#include <string>

#include "runtime/store.h"

namespace kiln {

inline Problem sample_problem(std::int64_t m) {
  return Problem{.op = "gemm",
                 .dims = {{"M", m}, {"N", 256}, {"K", 64}},
                 .dtypes = {{"a", bf16}, {"b", bf16}, {"d", f32}},
                 .choices = {{"a_layout", "row"}},
                 .alignments = {{"a", 16}}};
}

inline Trial sample_trial(std::int64_t m, std::int64_t bm) {
  Trial trial;
  trial.hardware_class = "cc9.0-test";
  trial.problem = sample_problem(m).canonical();
  trial.template_name = "simt_gemm";
  trial.template_digest = "digest-of-template";
  trial.config = {{"BM", bm}, {"BK", 64}};
  trial.timing = Timing{.median_us = 10.5,
                        .min_us = 10,
                        .max_us = 12,
                        .spread = 0.01,
                        .batches = 20,
                        .error = 1e-3,
                        .sm_clock_mhz = 1755};
  trial.registers = 168;
  trial.spill_bytes = 4;
  trial.shared_bytes = 196608;
  trial.versions = Versions{.driver = 13000, .nvrtc = "13.0", .kiln = "0.1.0"};
  trial.unix_time = 1'700'000'000;
  return trial;
}

inline Decision sample_decision(std::int64_t m) {
  Decision decision;
  decision.hardware_class = "cc9.0-test";
  decision.problem = sample_problem(m);
  decision.template_name = "simt_gemm";
  decision.template_digest = "digest-of-template";
  decision.config = {{"BM", 128}, {"BK", 64}};
  decision.evidence = Evidence::measured;
  decision.time_us = 10.5;
  decision.spread = 0.01;
  decision.samples = 20;
  decision.baseline = "cublaslt_best";
  decision.baseline_us = 12.25;
  decision.margin = 0.1666;
  decision.ties = {"simt_gemm BK=64,BM=64"};
  decision.trials = 48;
  decision.versions = Versions{.driver = 13000, .nvrtc = "13.0", .kiln = "0.1.0"};
  decision.unix_time = 1'700'000'000;
  decision.origin = "tune";
  return decision;
}

inline StoredCubin sample_cubin(const std::string& key, std::size_t bytes) {
  StoredCubin cubin;
  cubin.key = key;
  cubin.cubin.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) cubin.cubin[i] = static_cast<char>((i * 131 + key.size()) & 0xff);
  cubin.description = "simt_gemm BK=64,BM=128 sm_90a";
  cubin.resources = R"({"registers":168})";
  cubin.symbols = {"_ZN4kiln9simt_gemmEv", "_ZN4kiln6reduceEv"};
  return cubin;
}

inline Miss sample_miss(std::int64_t m) {
  return Miss{.hardware_class = "cc9.0-test",
              .problem = sample_problem(m),
              .answered_by = "nearest",
              .count = 1,
              .unix_time = 1'700'000'000};
}

}  // namespace kiln
