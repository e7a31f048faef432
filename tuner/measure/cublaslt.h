// cuBLASLt as a peer of the gemm op. Not thread-safe.
#pragma once

#include <memory>

#include "tuner/measure/peers.h"

namespace kiln::tuner {

// The first `max_variants` algorithms that cuBLASLt's heuristic suggests, best first by its own estimate.
// Throws like make_peer.
std::unique_ptr<Peer> make_cublaslt_gemm(const OpSpec& op, const Problem& problem, int max_variants);

}  // namespace kiln::tuner
