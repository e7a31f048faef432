#include "tuner/worker/gpu_worker.h"

#include <chrono>
#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "kiln/error.h"
#include "tuner/measure/session.h"
#include "tuner/worker/protocol.h"

namespace kiln::tuner {
namespace {

using protocol::Event;
using Kind = Event::Kind;

constexpr int kExitLost = 3;

// Sends what a session says to the parent, and sees when the parent wants it to stop.
class ChannelSink : public SessionSink {
 public:
  explicit ChannelSink(Channel& channel) : channel_(channel) {}

  void preparing() override {
    send({.kind = Kind::preparing, .candidate = 0, .text = {}, .detail = {}, .outcome = {}});
  }
  void touching(std::size_t candidate) override {
    send({.kind = Kind::touching, .candidate = candidate, .text = {}, .detail = {}, .outcome = {}});
  }
  void touching_peer(const std::string& name) override {
    send({.kind = Kind::touching_peer, .candidate = 0, .text = name, .detail = {}, .outcome = {}});
  }
  void checked(std::size_t candidate, double error) override {
    Timing timing;
    timing.error = error;
    send({.kind = Kind::checked, .candidate = candidate, .text = {}, .detail = {}, .outcome = timing});
  }
  void ended(std::size_t candidate, const Outcome& outcome) override {
    send({.kind = Kind::ended, .candidate = candidate, .text = {}, .detail = {}, .outcome = outcome});
  }
  void peer_ended(const std::string& name, const Timing& timing) override {
    send({.kind = Kind::peer_ended, .candidate = 0, .text = name, .detail = {}, .outcome = timing});
  }
  void peer_failed(const std::string& name, const std::string& why) override {
    send({.kind = Kind::peer_failed, .candidate = 0, .text = name, .detail = why, .outcome = {}});
  }
  void warning(const std::string& message) override {
    send({.kind = Kind::warning, .candidate = 0, .text = message, .detail = {}, .outcome = {}});
  }
  bool stop_requested() override {
    Json message;
    if (!stopped_ && channel_.receive(&message, std::chrono::milliseconds(0)) == Channel::Status::message) {
      stopped_ = protocol::type_of(message) == "stop";
    }
    return stopped_;
  }

  void send(const Event& event) { channel_.send(protocol::to_json(event)); }

 private:
  Channel& channel_;
  bool stopped_ = false;
};

void send_text(Channel& channel, Kind kind, const std::string& text) {
  channel.send(protocol::to_json(Event{.kind = kind, .candidate = 0, .text = text, .detail = {}, .outcome = {}}));
}

// False when the context is lost.
bool serve_job(Channel& channel, const Json& message, const MeasuringDevice& device, const TemplateSet& templates) {
  ChannelSink sink(channel);
  try {
    run_session(protocol::job_from_json(message), device, templates, sink);
    send_text(channel, Kind::done, {});
  } catch (const Error& error) {
    if (is_context_lost(error)) {
      send_text(channel, Kind::lost, error.what());
      return false;
    }
    send_text(channel, Kind::failed, error.what());
  } catch (const std::exception& error) {
    send_text(channel, Kind::failed, std::string("GPU worker: ") + error.what());
  }
  return true;
}

}  // namespace

int serve_measurements(int fd) {
  die_with_parent(fd);
  Channel channel(fd);
  std::unique_ptr<MeasuringDevice> device;
  std::unique_ptr<TemplateSet> templates;
  Json message;
  while (channel.receive(&message, std::chrono::milliseconds(-1)) == Channel::Status::message) {
    const std::string type = protocol::type_of(message);
    if (type == "open") {
      try {
        const protocol::Open open = protocol::open_from_json(message);
        templates = std::make_unique<TemplateSet>(open.template_folders);
        device = std::make_unique<MeasuringDevice>(open.gpu_uuid);
        send_text(channel, Kind::opened, {});
      } catch (const std::exception& error) {
        send_text(channel, Kind::failed, error.what());
        return 1;
      }
    } else if (type == "job" && device) {
      if (!serve_job(channel, message, *device, *templates)) {
        // Nothing can be released in a lost context; leave without trying.
        std::_Exit(kExitLost);
      }
    } else if (type != "stop") {
      log("tuner")->warn("a GPU worker ignores a message of type '{}'", type);
    }
  }
  return 0;
}

}  // namespace kiln::tuner
