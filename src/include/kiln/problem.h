// A problem: an op, its dims, dtypes and choices, and what is promised of its pointers. Two problems are the same when
// their canonical texts are. A plain value; thread-safe as such.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kiln/dtype.h"

namespace kiln {

struct Problem {
  std::string op;                              // "gemm"
  std::map<std::string, std::int64_t> dims;    // name → extent or stride, in elements
  std::map<std::string, DType> dtypes;         // name → element type
  std::map<std::string, std::string> choices;  // name → value, e.g. a_layout → row
  std::map<std::string, int> alignments;       // operand → bytes its pointer is a multiple of; default 16

  // One line that says everything, fields in a fixed order:
  // "gemm K=64 M=128 … | a=bf16 … | a_layout=row … | align_a=16 …". Equal texts mean equal problems.
  std::string canonical() const;
  // SHA-256 of canonical(), 64 hex digits.
  std::string digest() const;

  bool operator==(const Problem&) const = default;
};

// Reads what canonical() writes. Throws Error{invalid_argument}.
Problem parse_canonical_problem(std::string_view text);

// Reads a person's "m=4096,n=4096,k=4096,dtype=bf16": names as the op has them (case does not matter), dtypes and
// choices by name, `dtype` for every dtype at once, `align` for every operand at once. Nothing is checked against the
// op: see kernel/op_spec.h. Throws Error{invalid_argument} naming the piece that cannot be read.
struct ProblemText {
  std::string op;
  std::map<std::string, std::string> fields;  // names in lower case, values as written
};
ProblemText parse_problem_text(std::string_view op, std::string_view text);

}  // namespace kiln
