// kiln template show: what a template offers, and how each constraint shrinks its space for a problem.
#include <iostream>

#include "base/text.h"
#include "kernel/config_scope.h"
#include "kernel/space.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/session.h"

namespace kiln::cli {
namespace {

// Wide enough for the spaces people write; beyond it a size is shown as "more than".
constexpr SpaceLimits kShowLimits{.max_configs = 5'000'000, .max_visited = 20'000'000};

struct Step {
  std::string constraint;
  std::string reason;
  SpaceSummary space;  // left by this constraint and all before it
};

// Adds the constraints one at a time, so that each step's size is exact.
std::vector<Step> shrink(const KernelTemplate& t, const Problem& problem, const cuda::DeviceInfo& device) {
  std::vector<Step> steps;
  KernelTemplate part = t;
  part.manifest.require.clear();
  for (const Requirement& requirement : t.manifest.require) {
    part.manifest.require.push_back(requirement);
    ConfigScope bound(part, problem, device);
    steps.push_back(
        {requirement.condition.text(), requirement.reason, for_each_config(bound, kShowLimits, [](const Config&) {})});
  }
  return steps;
}

std::string size_text(const SpaceSummary& space) {
  return (space.truncated ? "more than " : "") + std::to_string(space.legal);
}

std::string value_list(const ParamSpec& param) {
  std::vector<std::string> values;
  for (const std::int64_t value : param.values) values.push_back(std::to_string(value));
  return join(values, " ");
}

Json to_json(const std::vector<Step>& steps, double raw) {
  Json json = Json::array();
  double before = raw;
  for (const Step& step : steps) {
    const double after = static_cast<double>(step.space.legal);
    json.push_back({{"constraint", step.constraint},
                    {"reason", step.reason},
                    {"before", before},
                    {"after", after},
                    {"truncated", step.space.truncated}});
    before = after;
  }
  return json;
}

void print_parameters(const KernelTemplate& t) {
  Table table({"parameter", "values", "default", "fixed"});
  for (const ParamSpec& param : t.manifest.params) {
    const auto fallback = t.manifest.fallback.find(param.name);
    table.add({param.name, value_list(param),
               fallback == t.manifest.fallback.end() ? "" : std::to_string(fallback->second),
               param.launch_time ? "at launch" : "when compiled"});
  }
  if (!table.empty()) std::cout << '\n' << table;
}

void print_space(const std::vector<Step>& steps, double raw, const std::string& problem,
                 const cuda::DeviceInfo& device) {
  std::cout << "\nSpace for " << problem << " on " << device.name << " (" << device.arch() << "): " << fixed(raw, 0)
            << " before any constraint\n";
  Table table({">left", "constraint", "because"});
  for (const Step& step : steps) table.add({size_text(step.space), step.constraint, step.reason});
  if (!table.empty()) std::cout << table;
}

}  // namespace

int run_template_show(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                         //
      ("template", po::value<std::vector<std::string>>()->value_name("NAME"), "name, or manifest file")         //
      ("problem", po::value<std::string>()->value_name("FIELDS"), "problem whose space is shown, m=64,n=64,…")  //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile, index or UUID whose space is shown")       //
      ("arch", po::value<std::string>()->value_name("ARCH"), "target whose space is shown, such as sm_90a")     //
      ("json", "as JSON");
  const auto values = parse({.usage = "kiln template show NAME [--problem FIELDS] [--gpu GPU | --arch ARCH] [options]",
                             .summary = "Shows a template and the size of its space after each constraint."},
                            options, arguments, "template");
  if (!values) return done;
  const std::vector<std::string> names = texts(*values, "template");
  if (names.size() != 1) throw Error(ErrorCode::invalid_argument, "name one template; kiln template list has them");

  Session session(*values);
  const TemplatePtr t = session.find_template(names.front());
  const std::string arch = text_or(*values, "arch", values->count("gpu") != 0 ? "" : t->manifest.arch.front());
  const cuda::DeviceInfo device =
      choose_device_or_arch(text_or(*values, "gpu", ""), arch.ends_with('+') ? arch.substr(0, arch.size() - 1) : arch)
          .device;

  std::optional<Problem> problem;
  constexpr std::int64_t kTypicalExtent = 4096;
  if (values->count("problem") != 0) {
    problem = problem_from_text(*t->op, parse_problem_text(t->op->name, (*values)["problem"].as<std::string>()));
    if (const std::string why = rejection(*t, *problem, device); !why.empty()) {
      throw Error(ErrorCode::unsupported, t->manifest.name + " does not take this problem: " + why);
    }
  } else {
    problem = sample_problem(*t, device, kTypicalExtent, 0);
  }
  double raw = 1;
  for (const ParamSpec& param : t->manifest.params) raw *= static_cast<double>(param.values.size());
  std::vector<Step> steps;
  if (problem) steps = shrink(*t, *problem, device);

  if (values->count("json") != 0) {
    Json params = Json::object();
    for (const ParamSpec& param : t->manifest.params) params[param.name] = param.values;
    Json json = {{"template", t->manifest.name},    {"op", t->op->name},        {"file", t->file},
                 {"digest", t->digest.hex()},       {"arch", t->manifest.arch}, {"params", params},
                 {"default", t->manifest.fallback}, {"raw_space", raw},         {"steps", to_json(steps, raw)}};
    if (problem) json["problem"] = short_text(*t->op, *problem);
    print_json(json);
    return done;
  }
  std::cout << t->manifest.name << ": " << t->manifest.summary << "\nop " << t->op->name << ", targets "
            << join(t->manifest.arch, " ") << ", " << t->file << ", digest " << t->digest.hex().substr(0, 12) << '\n';
  print_parameters(*t);
  if (problem) {
    print_space(steps, raw, short_text(*t->op, *problem), device);
  } else {
    std::cout << "\nNo space is shown: name a problem with --problem\n";
  }
  return done;
}

}  // namespace kiln::cli
