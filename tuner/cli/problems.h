// Problems as people write and read them. Thread-safe: free functions without state.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "kernel/template_set.h"
#include "kiln/problem.h"
#include "kiln/tuner.h"

namespace kiln::cli {

// From "--op gemm --problem m=4096,…", every default filled in. Throws Error{not_found} for an unknown op,
// Error{invalid_argument} for fields the op does not have or accept.
Problem problem_from_flags(const TemplateSet& templates, const std::string& op, const std::string& fields);

// What fields name: one problem, or a range of one of its dims.
using ProblemOrRange = std::variant<Problem, ProblemRange>;
ProblemOrRange problem_or_range_from_flags(const TemplateSet& templates, const std::string& op,
                                           const std::string& fields);

// "M=1..8192,N=4096,K=4096,dtype=bf16"
std::string short_text(const OpSpec& op, const ProblemRange& range);

// The fields that say something, in the form --problem reads: "M=4096,N=4096,K=4096,dtype=bf16". What has its default
// is left out.
std::string short_text(const OpSpec& op, const Problem& problem);

// A problem that `t` accepts on `device`, with the first dtypes of its accept rule number `rule` and every extent that
// must be given set to `extent` (or its minimum): what a check compiles for. Empty when the template rejects that one.
std::optional<Problem> sample_problem(const KernelTemplate& t, const cuda::DeviceInfo& device, std::int64_t extent,
                                      std::size_t rule);

}  // namespace kiln::cli
