// Other libraries that solve the same problem, timed beside Kiln's candidates. They are opened at run time where they
// are installed; nothing links to them. Which peers an op has stands in one table, in peers.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel/op_spec.h"
#include "tuner/measure/timer.h"

namespace kiln::tuner {

// One library's way to solve one problem; the fastest of its variants counts. Not thread-safe.
class Peer {
 public:
  virtual ~Peer() = default;
  // At least one. Valid while the peer lives.
  virtual std::vector<LaunchFunction> variants() = 0;
};

// The names known for `op`, in the order in which they are listed to people; empty for an op without a peer.
std::vector<std::string> peer_names(const std::string& op);

// Prepares `name` for `problem` with the scalars of `op`'s first check case, in the current context.
// Throws Error{not_found} when the library is not installed (listing where it was looked for) or the name is unknown,
// Error{unsupported} when it does not solve this problem.
std::unique_ptr<Peer> make_peer(const std::string& name, const OpSpec& op, const Problem& problem);

}  // namespace kiln::tuner
