#include "cache/row_json.h"

#include <utility>

#include "kiln/error.h"

namespace kiln::cache {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::invalid_argument, reason); }

// A field that must be there and of the right kind. nlohmann's own messages name neither the field nor what was met.
const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) refuse("a row must be an object, not " + std::string(object.type_name()));
  const auto found = object.find(name);
  if (found == object.end()) refuse("'" + std::string(name) + "' is missing");
  return *found;
}

template <class Value>
Value get(const Json& object, const char* name) {
  const Json& value = field(object, name);
  bool fits = false;
  if constexpr (std::is_same_v<Value, std::string>) {
    fits = value.is_string();
  } else if constexpr (std::is_integral_v<Value>) {
    fits = value.is_number_integer();
  } else {
    fits = value.is_number();
  }
  if (!fits) refuse("'" + std::string(name) + "' is " + value.dump() + ", not of the kind expected");
  return value.get<Value>();
}

Evidence evidence_of(const Json& json) {
  const auto name = get<std::string>(json, "evidence");
  for (const Evidence evidence : {Evidence::predicted, Evidence::measured}) {
    if (name == to_string(evidence)) return evidence;
  }
  refuse("'evidence' is '" + name + "', not predicted or measured");
}

Versions versions_of(const Json& json) {
  const Json& versions = field(json, "versions");
  return {.driver = get<int>(versions, "driver"),
          .nvrtc = get<std::string>(versions, "nvrtc"),
          .kiln = get<std::string>(versions, "kiln")};
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> texts;
  const Json& list = field(json, name);
  if (!list.is_array()) refuse("'" + std::string(name) + "' is not a list");
  for (const Json& text : list) {
    if (!text.is_string()) refuse("'" + std::string(name) + "' holds " + text.dump() + ", which is no text");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

// Reads each row of the list `name`; a failure says which row.
template <class Row>
std::vector<Row> rows_of(const Json& document, const char* name, Row (*read)(const Json&), const std::string& file) {
  std::vector<Row> rows;
  const auto list = document.find(name);
  if (list == document.end()) return rows;
  if (!list->is_array()) refuse(file + ": '" + name + "' is not a list");
  for (std::size_t i = 0; i < list->size(); ++i) {
    try {
      rows.push_back(read((*list)[i]));
    } catch (const std::exception& error) {
      refuse(file + ": " + name + "[" + std::to_string(i) + "]: " + error.what());
    }
  }
  return rows;
}

template <class Row>
Json list_of(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

}  // namespace

Json to_json(const Versions& versions) {
  return {{"driver", versions.driver}, {"nvrtc", versions.nvrtc}, {"kiln", versions.kiln}};
}

Json to_json(const Decision& decision) {
  return {{"hardware_class", decision.hardware_class},
          {"problem", decision.problem.canonical()},
          {"template", decision.template_name},
          {"template_digest", decision.template_digest},
          {"config", to_text(decision.config)},
          {"evidence", to_string(decision.evidence)},
          {"time_us", decision.time_us},
          {"spread", decision.spread},
          {"samples", decision.samples},
          {"baseline", decision.baseline},
          {"baseline_us", decision.baseline_us},
          {"margin", decision.margin},
          {"ties", decision.ties},
          {"trials", decision.trials},
          {"versions", to_json(decision.versions)},
          {"unix_time", decision.unix_time},
          {"origin", decision.origin}};
}

Json to_json(const Trial& trial) {
  Json json{{"hardware_class", trial.hardware_class},
            {"problem", trial.problem},
            {"template", trial.template_name},
            {"template_digest", trial.template_digest},
            {"config", to_text(trial.config)},
            {"evidence", to_string(trial.evidence)},
            {"registers", trial.registers},
            {"spill_bytes", trial.spill_bytes},
            {"shared_bytes", trial.shared_bytes},
            {"versions", to_json(trial.versions)},
            {"unix_time", trial.unix_time}};
  if (trial.timing) {
    const Timing& timing = *trial.timing;
    json["timing"] = {{"median_us", timing.median_us},
                      {"min_us", timing.min_us},
                      {"max_us", timing.max_us},
                      {"spread", timing.spread},
                      {"batches", timing.batches},
                      {"error", timing.error},
                      {"sm_clock_mhz", timing.sm_clock_mhz}};
  }
  if (trial.failure) {
    json["failure"] = {
        {"kind", to_string(trial.failure->kind)}, {"message", trial.failure->message}, {"log", trial.failure->log}};
  }
  return json;
}

Json to_json(const Miss& miss) {
  return {{"hardware_class", miss.hardware_class},
          {"problem", miss.problem.canonical()},
          {"answered_by", miss.answered_by},
          {"count", miss.count},
          {"unix_time", miss.unix_time}};
}

Json to_json(const Results& results) {
  return {{"format", kResultsFormat},
          {"version", kResultsVersion},
          {"decisions", list_of(results.decisions)},
          {"trials", list_of(results.trials)}};
}

Decision decision_from_json(const Json& json) {
  Decision decision;
  decision.hardware_class = get<std::string>(json, "hardware_class");
  decision.problem = parse_canonical_problem(get<std::string>(json, "problem"));
  decision.template_name = get<std::string>(json, "template");
  decision.template_digest = get<std::string>(json, "template_digest");
  decision.config = parse_config(get<std::string>(json, "config"));
  decision.evidence = evidence_of(json);
  decision.time_us = get<double>(json, "time_us");
  decision.spread = get<double>(json, "spread");
  decision.samples = get<int>(json, "samples");
  decision.baseline = get<std::string>(json, "baseline");
  decision.baseline_us = get<double>(json, "baseline_us");
  decision.margin = get<double>(json, "margin");
  decision.ties = texts_of(json, "ties");
  decision.trials = get<int>(json, "trials");
  decision.versions = versions_of(json);
  decision.unix_time = get<std::int64_t>(json, "unix_time");
  decision.origin = get<std::string>(json, "origin");
  return decision;
}

Trial trial_from_json(const Json& json) {
  Trial trial;
  trial.hardware_class = get<std::string>(json, "hardware_class");
  // Read and written again, so that a hand-made text and ours share a key.
  trial.problem = parse_canonical_problem(get<std::string>(json, "problem")).canonical();
  trial.template_name = get<std::string>(json, "template");
  trial.template_digest = get<std::string>(json, "template_digest");
  trial.config = parse_config(get<std::string>(json, "config"));
  trial.evidence = evidence_of(json);
  trial.registers = get<int>(json, "registers");
  trial.spill_bytes = get<int>(json, "spill_bytes");
  trial.shared_bytes = get<int>(json, "shared_bytes");
  trial.versions = versions_of(json);
  trial.unix_time = get<std::int64_t>(json, "unix_time");
  if (json.contains("timing") == json.contains("failure")) refuse("a trial has either a 'timing' or a 'failure'");
  if (json.contains("timing")) {
    const Json& timing = json["timing"];
    trial.timing = Timing{.median_us = get<double>(timing, "median_us"),
                          .min_us = get<double>(timing, "min_us"),
                          .max_us = get<double>(timing, "max_us"),
                          .spread = get<double>(timing, "spread"),
                          .batches = get<int>(timing, "batches"),
                          .error = get<double>(timing, "error"),
                          .sm_clock_mhz = get<int>(timing, "sm_clock_mhz")};
    return trial;
  }
  const Json& failure = json["failure"];
  const auto name = get<std::string>(failure, "kind");
  const std::optional<FailureKind> kind = parse_failure_kind(name);
  if (!kind) refuse("'" + name + "' is no kind of failure");
  trial.failure =
      Failure{.kind = *kind, .message = get<std::string>(failure, "message"), .log = get<std::string>(failure, "log")};
  return trial;
}

Results parse_results(std::string_view text, const std::string& file) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& error) {
    refuse(file + " is not JSON: " + error.what());
  }
  if (!document.is_object() || document.value("format", Json()) != Json(kResultsFormat)) {
    refuse(file + " is not an export of results: it lacks \"format\": \"" + std::string(kResultsFormat) + "\"");
  }
  const Json version = document.value("version", Json());
  if (!version.is_number_integer() || version.get<std::int64_t>() < 1 ||
      version.get<std::int64_t>() > kResultsVersion) {
    refuse(file + " has format version " + version.dump() + "; this Kiln reads up to " +
           std::to_string(kResultsVersion));
  }
  return {.decisions = rows_of(document, "decisions", &decision_from_json, file),
          .trials = rows_of(document, "trials", &trial_from_json, file)};
}

}  // namespace kiln::cache
