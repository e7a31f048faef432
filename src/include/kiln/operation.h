// A prepared operation: kernels loaded, arguments laid out, ready to launch on any stream from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kiln/config.h"
#include "kiln/problem.h"

struct CUstream_st;

namespace kiln {

using Stream = CUstream_st*;  // a CUstream or cudaStream_t; null is the legacy default stream

// Which rung of the lookup ladder answered, best first.
enum class Rung {
  exact_measured,    // tuned on this hardware class for this very problem
  nearest_measured,  // tuned on this hardware class for the nearest problem
  preset,            // shipped with Kiln for this hardware class
  near_preset,       // shipped for a hardware class like this one
  predicted,         // stored or computed from the template's cost model
  fallback,          // the template's safe default
};
const char* to_string(Rung rung) noexcept;

// Where a configuration came from.
struct Provenance {
  Rung rung = Rung::fallback;
  std::string template_name;
  Config config;
  std::string source;      // the problem or preset it was taken from
  double expected_us = 0;  // 0: unknown
  bool stale = false;      // measured with another driver, NVRTC or Kiln version
};

// Thread-safe; cheap to copy (shared state).
class Operation {
 public:
  // Launches on `stream`. `pointers`: one device pointer per operand, in the op's order; those to operands that the
  // problem does not have may be null, or left out at the end. `scalars`: one value per
  // scalar of the op, in its order; empty: the defaults. `workspace` as in GemmOperation. Throws
  // Error{invalid_argument}, {launch_failed}.
  void operator()(Stream stream, std::span<void* const> pointers, std::span<const double> scalars = {},
                  void* workspace = nullptr) const;
  // For an operation prepared over a range: `extent` is the dynamic dim's value.
  void operator()(Stream stream, std::int64_t extent, std::span<void* const> pointers,
                  std::span<const double> scalars = {}, void* workspace = nullptr) const;
  // Of the largest extent, for an operation over a range.
  std::size_t workspace_bytes() const;
  // Allocates the workspace this operation keeps for `stream`, so that a capture on it needs no allocation.
  void reserve(Stream stream) const;
  Provenance provenance(std::int64_t extent = 0) const;
  const Problem& problem() const;

 private:
  friend class Runtime;
  struct Impl;
  explicit Operation(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace kiln
