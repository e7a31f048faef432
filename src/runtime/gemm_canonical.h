// A typed GEMM as the engine solves it: D row-major.
#pragma once

#include <string>

#include "kiln/gemm.h"

namespace kiln {

struct CanonicalGemm {
  Problem problem;          // defaults not filled in
  bool swapped = false;     // D was column-major: A and B trade places
  std::string dynamic_dim;  // "M" or "N" when m is a bound, else empty
};

CanonicalGemm canonical(const Gemm& gemm);

}  // namespace kiln
