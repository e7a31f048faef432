// A GPU worker without a GPU: it speaks the protocol and misbehaves as each candidate's FAULT parameter says. Its first
// argument is a file in which it counts how often it was started.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/process.h"
#include "tuner/worker/protocol.h"

namespace {

using kiln::Channel;
using kiln::Failure;
using kiln::FailureKind;
using kiln::Json;
using kiln::Timing;
using kiln::tuner::MeasureJob;
using kiln::tuner::protocol::Event;
namespace protocol = kiln::tuner::protocol;

enum Fault { kNone, kAbort, kHang, kLost, kWrong, kAbortAfterEnd, kSlow, kNonsense };

void send(Channel& channel, Event event) { channel.send(protocol::to_json(event)); }

Event make(Event::Kind kind, std::size_t candidate = 0, const std::string& text = {}) {
  Event event;
  event.kind = kind;
  event.candidate = candidate;
  event.text = text;
  return event;
}

bool stop_came(Channel& channel) {
  Json message;
  return channel.receive(&message, std::chrono::milliseconds(0)) == Channel::Status::message &&
         protocol::type_of(message) == "stop";
}

void run(Channel& channel, const MeasureJob& job) {
  send(channel, make(Event::Kind::preparing));
  for (std::size_t i = 0; i < job.candidates.size(); ++i) {
    if (stop_came(channel)) break;
    send(channel, make(Event::Kind::touching, i));
    Event ended = make(Event::Kind::ended, i);
    Timing timing;
    timing.median_us = 10.0 + static_cast<double>(i);
    timing.error = job.candidates[i].checked_error.value_or(0);
    ended.outcome = timing;
    switch (job.candidates[i].config.at("FAULT")) {
      case kAbort:
        std::fputs("about to abort\n", stderr);
        std::abort();
      case kHang:
        std::this_thread::sleep_for(std::chrono::hours(1));
        break;
      case kLost:
        send(channel, make(Event::Kind::lost, 0, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        std::_Exit(3);
      case kWrong:
        ended.outcome = Failure{FailureKind::wrong_result, "left 1 elements unwritten", {}};
        break;
      case kAbortAfterEnd:
        send(channel, ended);
        std::abort();
      case kNonsense:
        channel.send(Json{{"type", "event"}, {"kind", "ended"}, {"candidate", 1000}});
        break;
      case kSlow:
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        break;
      default:
        break;
    }
    send(channel, ended);
  }
  for (const std::string& peer : job.peers) {
    send(channel, make(Event::Kind::touching_peer, 0, peer));
    if (peer == "crashing") std::abort();
    Event ended = make(Event::Kind::peer_ended, 0, peer);
    Timing timing;
    timing.median_us = 99;
    ended.outcome = timing;
    send(channel, ended);
  }
  send(channel, make(Event::Kind::done));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) std::ofstream(argv[1], std::ios::app) << getpid() << "\n";
  Channel channel(kiln::kChannelFd);
  Json message;
  while (channel.receive(&message, std::chrono::milliseconds(-1)) == Channel::Status::message) {
    if (protocol::type_of(message) == "open") {
      const protocol::Open open = protocol::open_from_json(message);
      if (open.gpu_uuid == "GPU-broken") {
        send(channel, make(Event::Kind::failed, 0, "no GPU has this UUID"));
        return 1;
      }
      send(channel, make(Event::Kind::opened));
    } else if (protocol::type_of(message) == "job") {
      run(channel, protocol::job_from_json(message));
    }
  }
  return 0;
}
