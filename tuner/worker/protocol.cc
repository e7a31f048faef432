#include "tuner/worker/protocol.h"

#include <array>

#include "kiln/error.h"

namespace kiln::tuner::protocol {
namespace {

constexpr std::array kKindNames{
    std::pair{Event::Kind::opened, "opened"},         std::pair{Event::Kind::preparing, "preparing"},
    std::pair{Event::Kind::touching, "touching"},     std::pair{Event::Kind::touching_peer, "touching_peer"},
    std::pair{Event::Kind::checked, "checked"},       std::pair{Event::Kind::ended, "ended"},
    std::pair{Event::Kind::peer_ended, "peer_ended"}, std::pair{Event::Kind::peer_failed, "peer_failed"},
    std::pair{Event::Kind::warning, "warning"},       std::pair{Event::Kind::done, "done"},
    std::pair{Event::Kind::failed, "failed"},         std::pair{Event::Kind::lost, "lost"},
};

const char* name_of(Event::Kind kind) {
  for (const auto& [known, name] : kKindNames) {
    if (known == kind) return name;
  }
  throw Error(ErrorCode::internal, "an event kind without a name");
}

Event::Kind kind_of(const std::string& name) {
  for (const auto& [kind, known] : kKindNames) {
    if (name == known) return kind;
  }
  throw Error(ErrorCode::internal, "unknown event '" + name + "' from a GPU worker of another version");
}

Json binary(const std::string& bytes) { return Json::binary({bytes.begin(), bytes.end()}); }

std::string bytes_of(const Json& json) {
  const Json::binary_t& bytes = json.get_binary();
  return {bytes.begin(), bytes.end()};
}

Json code_to_json(const KernelCode& code) { return {{"cubin", binary(code.cubin)}, {"symbols", code.symbols}}; }

KernelCode code_from_json(const Json& json) {
  return {.cubin = bytes_of(json.at("cubin")), .symbols = json.at("symbols").get<std::vector<std::string>>()};
}

Json candidate_to_json(const Candidate& candidate) {
  Json json{{"template", candidate.template_name},
            {"digest", candidate.template_digest},
            {"config", candidate.config},
            {"code", code_to_json(candidate.code)},
            {"reference", candidate.reference}};
  if (candidate.checked_error) json["checked_error"] = *candidate.checked_error;
  return json;
}

Candidate candidate_from_json(const Json& json) {
  Candidate candidate{.template_name = json.at("template"),
                      .template_digest = json.at("digest"),
                      .config = json.at("config").get<Config>(),
                      .code = code_from_json(json.at("code")),
                      .reference = json.at("reference"),
                      .checked_error = std::nullopt};
  if (json.contains("checked_error")) candidate.checked_error = json.at("checked_error").get<double>();
  return candidate;
}

Json reference_to_json(const Reference& reference) {
  return {{"template", reference.template_name},
          {"digest", reference.template_digest},
          {"config", reference.config},
          {"own_launches", reference.own_launches},
          {"code", code_to_json(reference.code)}};
}

Reference reference_from_json(const Json& json) {
  return {.template_name = json.at("template"),
          .template_digest = json.at("digest"),
          .config = json.at("config").get<Config>(),
          .own_launches = json.at("own_launches"),
          .code = code_from_json(json.at("code"))};
}

Json outcome_to_json(const Outcome& outcome) {
  if (const auto* failure = std::get_if<Failure>(&outcome)) {
    return {{"failure", to_string(failure->kind)}, {"message", failure->message}, {"log", failure->log}};
  }
  const Timing& timing = std::get<Timing>(outcome);
  return {{"median_us", timing.median_us},
          {"min_us", timing.min_us},
          {"max_us", timing.max_us},
          {"spread", timing.spread},
          {"batches", timing.batches},
          {"error", timing.error},
          {"sm_clock_mhz", timing.sm_clock_mhz}};
}

Outcome outcome_from_json(const Json& json) {
  if (json.contains("failure")) {
    const auto kind = parse_failure_kind(json.at("failure").get<std::string>());
    if (!kind) throw Error(ErrorCode::internal, "unknown failure kind from a GPU worker of another version");
    return Failure{.kind = *kind, .message = json.at("message"), .log = json.at("log")};
  }
  return Timing{.median_us = json.at("median_us"),
                .min_us = json.at("min_us"),
                .max_us = json.at("max_us"),
                .spread = json.at("spread"),
                .batches = json.at("batches"),
                .error = json.at("error"),
                .sm_clock_mhz = json.at("sm_clock_mhz")};
}

}  // namespace

Json to_json(const Open& open) {
  Json folders = Json::array();
  for (const auto& folder : open.template_folders) folders.push_back(folder.string());
  return {{"type", "open"}, {"gpu", open.gpu_uuid}, {"template_folders", std::move(folders)}};
}

Json to_json(const MeasureJob& job) {
  Json candidates = Json::array();
  for (const Candidate& candidate : job.candidates) candidates.push_back(candidate_to_json(candidate));
  Json references = Json::array();
  for (const Reference& reference : job.references) references.push_back(reference_to_json(reference));
  return {{"type", "job"},
          {"problem", job.problem.canonical()},
          {"candidates", std::move(candidates)},
          {"references", std::move(references)},
          {"check_cubin", binary(job.check_cubin)},
          {"check_symbols", job.check_symbols},
          {"peers", job.peers},
          {"rounds", job.rounds},
          {"cold", job.cold},
          {"screen", job.screen},
          {"quick", job.quick},
          {"seed", job.seed},
          {"candidate_deadline_ms", job.candidate_deadline.count()}};
}

Json to_json(const Event& event) {
  return {{"type", "event"},    {"kind", name_of(event.kind)}, {"candidate", event.candidate},
          {"text", event.text}, {"detail", event.detail},      {"outcome", outcome_to_json(event.outcome)}};
}

Json stop_message() { return {{"type", "stop"}}; }

std::string type_of(const Json& message) {
  if (!message.is_object()) return {};
  const auto found = message.find("type");
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Open open_from_json(const Json& message) {
  Open open;
  open.gpu_uuid = message.at("gpu");
  for (const Json& folder : message.at("template_folders"))
    open.template_folders.emplace_back(folder.get<std::string>());
  return open;
}

MeasureJob job_from_json(const Json& message) {
  MeasureJob job;
  job.problem = parse_canonical_problem(message.at("problem").get<std::string>());
  for (const Json& candidate : message.at("candidates")) job.candidates.push_back(candidate_from_json(candidate));
  for (const Json& reference : message.at("references")) job.references.push_back(reference_from_json(reference));
  job.check_cubin = bytes_of(message.at("check_cubin"));
  job.check_symbols = message.at("check_symbols").get<std::map<std::string, std::string>>();
  job.peers = message.at("peers").get<std::vector<std::string>>();
  job.rounds = message.at("rounds");
  job.cold = message.at("cold");
  job.screen = message.at("screen");
  job.quick = message.at("quick");
  job.seed = message.at("seed");
  job.candidate_deadline = std::chrono::milliseconds(message.at("candidate_deadline_ms").get<std::int64_t>());
  return job;
}

Event event_from_json(const Json& message) {
  return {.kind = kind_of(message.at("kind").get<std::string>()),
          .candidate = message.at("candidate"),
          .text = message.at("text"),
          .detail = message.at("detail"),
          .outcome = outcome_from_json(message.at("outcome"))};
}

}  // namespace kiln::tuner::protocol
