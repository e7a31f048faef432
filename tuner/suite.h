// A suite: the problems that are tuned or measured together, from one TOML file.
//
//   op       = "gemm"
//   name     = "gemm_small"                     # default: the file's name without .toml
//   defaults = { dtype = "bf16" }               # fields of every problem that does not give its own
//   problems = [
//     "m=4096,n=4096,k=4096",                   # as --problem reads
//     { m = 1, n = 8192, k = 8192, weight = 4 } # the same as a table; weight: how much the problem counts, default 1
//   ]
//
// Plain values; thread-safe as such.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernel/template_set.h"
#include "kiln/problem.h"

namespace kiln::tuner {

struct SuiteProblem {
  Problem problem;  // every default filled in
  double weight = 1;
};

struct Suite {
  std::string name;
  std::string op;
  std::vector<SuiteProblem> problems;
};

// Throws Error{not_found} for a missing file or op, Error{invalid_argument} naming file, place, value and what is
// allowed.
Suite read_suite(const std::filesystem::path& file, const TemplateSet& templates);
// The same from text; `file` is for messages, and for the default name.
Suite parse_suite(const std::string& text, const std::filesystem::path& file, const TemplateSet& templates);

}  // namespace kiln::tuner
