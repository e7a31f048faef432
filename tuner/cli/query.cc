// kiln query: what the lookup ladder answers for a problem, and why.
#include <iostream>
#include <set>
#include <variant>

#include "cache/row_json.h"
#include "runtime/dispatch.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/roofline.h"
#include "tuner/cli/session.h"

namespace kiln::cli {
namespace {

Json to_json(const Answer& answer, const Problem& problem, const std::string& text, const cuda::DeviceInfo& device,
             const Roofline& roof) {
  Json json = {{"op", problem.op},
               {"problem", text},
               {"hardware_class", cuda::hardware_class(device)},
               {"rung", to_string(answer.rung)},
               {"template", answer.kernel_template->manifest.name},
               {"config", answer.config},
               {"source", answer.source},
               {"expected_us", answer.expected_us},
               {"roofline_us", roof.us},
               {"roofline_share", roof.share(answer.expected_us)},
               {"stale", answer.stale},
               {"notes", answer.notes}};
  if (answer.decision) json["decision"] = cache::to_json(*answer.decision);
  return json;
}

void print_line(const std::string& name, const std::string& value) {
  std::string column = name;
  column.resize(16, ' ');
  std::cout << column << value << '\n';
}

std::string versions_text(const Versions& versions) {
  std::string text = "Kiln " + versions.kiln;
  if (!versions.nvrtc.empty()) text += ", NVRTC " + versions.nvrtc;
  if (versions.driver != 0) {
    text += ", driver for CUDA " + std::to_string(versions.driver / 1000) + "." +
            std::to_string(versions.driver % 1000 / 10);
  }
  return text;
}

void explain_decision(const Decision& decision) {
  print_line("evidence", std::string(to_string(decision.evidence)) + ", " + std::to_string(decision.trials) +
                             " candidates tried, " + std::to_string(decision.samples) + " samples, spread " +
                             percent(decision.spread));
  if (decision.baseline_us > 0) {
    print_line("baseline", decision.baseline + " " + microseconds(decision.baseline_us) +
                               " µs: " + signed_percent(decision.margin) + " margin");
  } else {
    print_line("baseline", "none was measured");
  }
  if (decision.ties.empty()) {
    print_line("ties", "none within the noise");
  } else {
    for (const std::string& tie : decision.ties) print_line(&tie == &decision.ties.front() ? "ties" : "", tie);
  }
  print_line("age", age(decision.unix_time) + ", by " + decision.origin);
  print_line("versions", versions_text(decision.versions));
}

}  // namespace

namespace {

// One row of a dispatch table: the answer for extents up to `last`.
struct RangeAnswer {
  std::int64_t first = 0;
  std::int64_t last = 0;
  Answer answer;
};

// What prepare() over the range would use, neighbours with one answer joined.
std::vector<RangeAnswer> answer_range(const Lookup& lookup, const OpSpec& op, const ProblemRange& range,
                                      const std::string& only) {
  std::vector<RangeAnswer> answers;
  std::int64_t first = range.first;
  for (const std::int64_t last :
       dispatch_points(op, range.given, {range.dim, range.first, range.last}, lookup.known(op.name))) {
    Answer answer = lookup.find(with_extent(op, range.given, range.dim, last), only);
    const auto same = [&](const Answer& other) {
      return other.kernel_template == answer.kernel_template && other.config == answer.config &&
             other.rung == answer.rung;
    };
    if (!answers.empty() && same(answers.back().answer)) {
      answers.back().last = last;
      answers.back().answer = std::move(answer);
    } else {
      answers.push_back({first, last, std::move(answer)});
    }
    first = last + 1;
  }
  return answers;
}

int query_range(Session& session, const ProblemRange& range, const po::variables_map& values) {
  const std::shared_ptr<const OpSpec> op = session.templates().find_op(range.given.op);
  const DeviceChoice choice = choose_device(text_or(values, "gpu", ""));
  const std::string only = text_or(values, "template", "");
  if (!only.empty()) session.templates().find(only);
  const std::vector<RangeAnswer> answers = answer_range(session.lookup(choice), *op, range, only);
  std::set<std::string> kernels;
  for (const RangeAnswer& each : answers)
    kernels.insert(compiled_part(*each.answer.kernel_template, each.answer.config));
  const std::string text = short_text(*op, range);
  if (values.count("json") != 0) {
    Json intervals = Json::array();
    for (const RangeAnswer& each : answers) {
      const Problem problem = with_extent(*op, range.given, range.dim, each.last);
      Json json =
          to_json(each.answer, problem, short_text(*op, problem), choice.device, roofline(*op, problem, choice.device));
      json["first"] = each.first;
      json["last"] = each.last;
      intervals.push_back(std::move(json));
    }
    print_json({{"op", op->name},
                {"range", text},
                {"dim", range.dim},
                {"hardware_class", cuda::hardware_class(choice.device)},
                {"kernels", kernels.size()},
                {"intervals", intervals}});
    return done;
  }
  print_line("range", op->name + " " + text);
  print_line("device",
             choice.device.name + (choice.present ? "" : " (profile)") + ", " + cuda::hardware_class(choice.device));
  print_line("kernels", std::to_string(kernels.size()) + " compiled");
  Table table({">" + range.dim, ">µs", "rung", "answer"});
  for (const RangeAnswer& each : answers) {
    table.add({std::to_string(each.first) + "–" + std::to_string(each.last),
               each.answer.expected_us > 0 ? microseconds(each.answer.expected_us) : "-",
               std::string(to_string(each.answer.rung)) + (each.answer.stale ? " (stale)" : ""),
               each.answer.kernel_template->manifest.name + " " + to_text(each.answer.config)});
  }
  std::cout << '\n' << table;
  if (values.count("explain") == 0) return done;
  for (const RangeAnswer& each : answers) {
    std::cout << '\n' << range.dim << "=" << each.last << '\n';
    if (!each.answer.source.empty()) print_line("from", each.answer.source);
    for (const std::string& note : each.answer.notes) print_line("", note);
  }
  return done;
}

}  // namespace

int run_query(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                       //
      ("op", po::value<std::string>()->value_name("OP")->default_value("gemm"), "operation")  //
      ("problem", po::value<std::string>()->value_name("FIELDS"),
       "m=4096,n=4096,k=4096,dtype=bf16, or a range of one dim, m=1..8192,…")                                   //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile (h200, …), index or UUID; default: GPU 0")  //
      ("template", po::value<std::string>()->value_name("NAME"), "consider only this template")                 //
      ("explain", "also margin, ties, age, versions, and why better rungs did not answer")                      //
      ("json", "as JSON");
  const auto values =
      parse({.usage = "kiln query --problem FIELDS [--op OP] [--gpu GPU] [--explain] [options]",
             .summary = "Answers with the best known configuration; for a range of a dim, with the dispatch table that "
                        "preparing over it would make. Never tunes, compiles or launches."},
            options, arguments);
  if (!values) return done;

  Session session(*values);
  const std::string fields = required_text(*values, "problem");
  const ProblemOrRange wanted =
      problem_or_range_from_flags(session.templates(), (*values)["op"].as<std::string>(), fields);
  if (const auto* range = std::get_if<ProblemRange>(&wanted)) return query_range(session, *range, *values);
  const auto& problem = std::get<Problem>(wanted);
  const DeviceChoice choice = choose_device(text_or(*values, "gpu", ""));
  const std::string only = text_or(*values, "template", "");
  if (!only.empty()) session.templates().find(only);  // a misspelt name is "not found", not "unsupported"
  const Answer answer = session.lookup(choice).find(problem, only);

  const OpSpec& op = *answer.kernel_template->op;
  const Roofline roof = roofline(op, problem, choice.device);
  const std::string text = short_text(op, problem);
  if (values->count("json") != 0) {
    print_json(to_json(answer, problem, text, choice.device, roof));
    return done;
  }
  print_line("problem", problem.op + " " + text);
  print_line("device",
             choice.device.name + (choice.present ? "" : " (profile)") + ", " + cuda::hardware_class(choice.device));
  print_line("answer", answer.kernel_template->manifest.name + " " + to_text(answer.config));
  print_line("rung", std::string(to_string(answer.rung)) + (answer.source.empty() ? "" : ", from " + answer.source) +
                         (answer.stale ? " (stale: made with other versions)" : ""));
  if (answer.expected_us > 0) {
    print_line("expected", microseconds(answer.expected_us) + " µs, " + throughput(roof, answer.expected_us) + ", " +
                               percent(roof.share(answer.expected_us)) + " of the " +
                               (roof.memory_bound ? "memory" : "compute") + " roofline");
  } else {
    print_line("expected", "unknown; the roofline is " + microseconds(roof.us) + " µs");
  }
  if (values->count("explain") == 0) return done;
  if (answer.decision) explain_decision(*answer.decision);
  for (const std::string& note : answer.notes) print_line(&note == &answer.notes.front() ? "why not better" : "", note);
  return done;
}

}  // namespace kiln::cli
