// The messages between the orchestrator and a GPU worker, as JSON values that travel as CBOR (so cubins stay binary).
// Parent to worker: open, job, stop. Worker to parent: opened, or events, of which done or lost is the last of a job.
// Pure functions; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tuner/candidate.h"

namespace kiln::tuner::protocol {

// The first message to a worker.
struct Open {
  std::string gpu_uuid;
  std::vector<std::filesystem::path> template_folders;
};

struct Event {
  enum class Kind {
    opened,         // the GPU answers
    preparing,      // operands, references: no candidate's doing
    touching,       // `candidate` is run next
    touching_peer,  // `text` is run next
    checked,        // `candidate` is right, with timing.error
    ended,          // `candidate` has an outcome
    peer_ended,     // peer `text` has `outcome`, a Timing
    peer_failed,    // peer `text` has none because of `detail`
    warning,        // `text`
    done,           // the job has ended
    failed,         // the job, or open, cannot be done: `text`
    lost,           // the context is lost: `text`; the worker exits
  };
  Kind kind = Kind::done;
  std::size_t candidate = 0;
  std::string text;
  std::string detail;
  Outcome outcome;
};

Json to_json(const Open& open);
Json to_json(const MeasureJob& job);
Json to_json(const Event& event);
Json stop_message();

// What a message is; empty for one that this version does not know.
std::string type_of(const Json& message);
// Throw nlohmann::json::exception or Error{internal} for a message that is not what it says.
Open open_from_json(const Json& message);
MeasureJob job_from_json(const Json& message);
Event event_from_json(const Json& message);

}  // namespace kiln::tuner::protocol
