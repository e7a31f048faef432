// kiln model report: how well each template's cost model ranks what was measured, alone and all templates together.
#include <algorithm>
#include <iostream>
#include <map>

#include "tuner/cli/commands.h"
#include "tuner/cli/model_scores.h"
#include "tuner/cli/output.h"
#include "tuner/cli/session.h"
#include "tuner/model/evaluator.h"

namespace kiln::cli {
namespace {

using tuner::MeasuredProblem;

struct Report {
  TemplatePtr kernel_template;
  std::vector<MeasuredProblem> problems;
  std::vector<std::vector<double>> predicted;
};

std::vector<TemplatePtr> chosen_templates(const po::variables_map& values, Session& session) {
  std::vector<TemplatePtr> templates;
  for (const std::string& name : texts(values, "template")) templates.push_back(session.find_template(name));
  if (!templates.empty()) return templates;
  for (const std::string& op : session.templates().op_names()) {
    for (const TemplatePtr& t : session.templates().of_op(op)) templates.push_back(t);
  }
  return templates;
}

// What a search sees: the candidates of all templates of an op in one list.
std::vector<ProblemScores> score_together(const std::vector<Report>& reports, const std::string& op) {
  std::map<std::string, MeasuredProblem> problems;
  std::map<std::string, std::vector<double>> predicted;
  std::map<std::string, int> templates;
  std::shared_ptr<const OpSpec> spec;
  for (const Report& report : reports) {
    if (report.kernel_template->op->name != op) continue;
    spec = report.kernel_template->op;
    for (std::size_t i = 0; i < report.problems.size(); ++i) {
      const std::string key = report.problems[i].problem.canonical();
      MeasuredProblem& all = problems[key];
      all.problem = report.problems[i].problem;
      all.configs.insert(all.configs.end(), report.problems[i].configs.begin(), report.problems[i].configs.end());
      predicted[key].insert(predicted[key].end(), report.predicted[i].begin(), report.predicted[i].end());
      ++templates[key];
    }
  }
  std::vector<MeasuredProblem> shared;
  std::vector<std::vector<double>> predictions;
  for (auto& [key, problem] : problems) {
    if (templates[key] < 2) continue;
    shared.push_back(std::move(problem));
    predictions.push_back(std::move(predicted[key]));
  }
  return spec ? score_problems(*spec, shared, predictions) : std::vector<ProblemScores>{};
}

}  // namespace

int run_model_report(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                           //
      ("template", po::value<std::vector<std::string>>()->value_name("NAME"), "only this template (repeatable)")  //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile (h200, …), index or UUID; default: GPU 0")    //
      ("all-forms", "also trials of earlier forms of a template, where their configurations are still legal")     //
      ("json", "as JSON");
  const auto values = parse(
      {.usage = "kiln model report [--template NAME] [--gpu GPU] [--cache FILE] [options]", .summary = kScoresHelp},
      options, arguments);
  if (!values) return done;

  Session session(*values);
  const DeviceChoice choice = choose_device(text_or(*values, "gpu", ""));
  const auto forms = values->count("all-forms") != 0 ? tuner::TrialForms::any : tuner::TrialForms::current;
  std::vector<Report> reports;
  std::vector<std::string> ops;
  for (const TemplatePtr& t : chosen_templates(*values, session)) {
    if (!t->manifest.cost_cycles) continue;
    Report report{.kernel_template = t,
                  .problems = tuner::measured_problems(session.store(), *t, choice.device, forms),
                  .predicted = {}};
    if (report.problems.empty()) continue;
    report.predicted = tuner::ModelEvaluator(*t, report.problems, choice.device).predict(t->manifest.cost_constants);
    if (std::find(ops.begin(), ops.end(), t->op->name) == ops.end()) ops.push_back(t->op->name);
    reports.push_back(std::move(report));
  }
  if (reports.empty()) {
    throw Error(ErrorCode::not_found, "no measured trial of a template with a cost model on " +
                                          cuda::hardware_class(choice.device) + " in " + session.store().location() +
                                          "; tune there first, or name another database with --cache");
  }

  Json json = {
      {"hardware_class", cuda::hardware_class(choice.device)}, {"templates", Json::object()}, {"ops", Json::object()}};
  const bool as_json = values->count("json") != 0;
  for (const Report& report : reports) {
    const std::string& name = report.kernel_template->manifest.name;
    const auto scores = score_problems(*report.kernel_template->op, report.problems, report.predicted);
    json["templates"][name] = scores_to_json(scores);
    if (!as_json) print_scores(name, scores);
  }
  for (const std::string& op : ops) {
    const auto scores = score_together(reports, op);
    if (scores.empty()) continue;
    json["ops"][op] = scores_to_json(scores);
    if (!as_json) print_scores("all templates of " + op, scores);
  }
  if (as_json) print_json(json);
  return done;
}

}  // namespace kiln::cli
