// The fewest kernels that serve every sample of a range nearly as well as the best does. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kiln::tuner {

// A configuration that could serve.
struct Server {
  std::string kernel;         // configurations of one kernel share what is compiled
  std::vector<double> times;  // microseconds at each sample; infinity where it cannot serve
};

// For each sample the index of the server chosen, or servers.size() where none can serve. Every choice is within
// `slack` of the best at its sample. Kernels are chosen greedily, the one that serves most samples not yet served first
// (of several the one that is faster there, then the first), and given up again where the others suffice: a set cover
// that is near the smallest, not always the smallest. Among the kernels chosen the fastest serves, but a sample keeps
// the server of the one before unless another is faster by more than `noise`.
std::vector<std::size_t> cover(const std::vector<Server>& servers, double slack, double noise);

}  // namespace kiln::tuner
