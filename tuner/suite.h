// A suite: the problems that are tuned or measured together, from one TOML file.
//
//   op       = "gemm"
//   name     = "gemm_small"                     # default: the file's name without .toml
//   defaults = { dtype = "bf16" }               # fields of every problem that does not give its own
//   problems = [
//     "m=4096,n=4096,k=4096",                   # as --problem reads
//     { m = 1, n = 8192, k = 8192, weight = 4 } # the same as a table; weight: how much the problem counts, default 1
//     "m=1..8192,n=4096,k=4096",                # one dim, any of the op's but strides, over a range: `kiln tune` makes
//     one
//   ]                                           # dispatch table of it, `kiln bench` times the values it was tuned at
//
// Plain values; thread-safe as such.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernel/template_set.h"
#include "kiln/tuner.h"

namespace kiln::tuner {

struct SuiteProblem {
  Problem problem;  // every default filled in
  double weight = 1;
  std::size_t entry = 0;  // its place in the file's list
};

struct SuiteRange {
  ProblemRange range;
  double weight = 1;  // of the range as a whole
};

struct Suite {
  std::string name;
  std::string op;
  std::vector<SuiteProblem> problems;
  std::vector<SuiteRange> ranges;
};

// Throws Error{not_found} for a missing file or op, Error{invalid_argument} naming file, place, value and what is
// allowed.
Suite read_suite(const std::filesystem::path& file, const TemplateSet& templates);
// The same from text; `file` is for messages, and for the default name.
Suite parse_suite(const std::string& text, const std::filesystem::path& file, const TemplateSet& templates);

}  // namespace kiln::tuner
