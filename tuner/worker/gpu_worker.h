// The measuring side of a worker process: the only process that runs candidates. It owns one GPU, named by its parent,
// and says which candidate it is about to touch, so that the parent knows whom to blame if it never speaks again.
#pragma once

namespace kiln::tuner {

// Answers measuring jobs on file descriptor `fd` until it closes. Returns the exit status: 0 when the parent closed the
// channel, 1 when the GPU cannot be used, 3 when a candidate left the context unusable (said to the parent first).
int serve_measurements(int fd);

}  // namespace kiln::tuner
