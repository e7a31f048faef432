// Compile requests and outcomes as messages between the pool and its processes. Thread-safe.
#pragma once

#include "base/json.h"
#include "jit/compile.h"

namespace kiln::jit {

Json to_json(const CompileRequest& request);
Json to_json(const CompileOutcome& outcome);
// Both throw Error{io} for a message that is not what to_json() gives.
CompileRequest request_from_json(const Json& json);
CompileOutcome outcome_from_json(const Json& json);

}  // namespace kiln::jit
