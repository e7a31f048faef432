// kiln model refit: fits the constants of one template's cost model to what was measured.
#include <fstream>
#include <iostream>
#include <sstream>

#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/model_scores.h"
#include "tuner/cli/output.h"
#include "tuner/cli/session.h"
#include "tuner/model/constants_text.h"
#include "tuner/model/evaluator.h"
#include "tuner/model/fit.h"

namespace kiln::cli {
namespace {

std::string read_text(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw Error(ErrorCode::not_found, file + ": there is no such manifest, or it cannot be read");
  }
  return text.str();
}

void check_manifest_name(const std::string& text, const std::string& file, const std::string& name) {
  const std::string found = read_manifest(text, file).name;
  if (found == name) return;
  throw Error(ErrorCode::invalid_argument, "--write: " + file + " is the manifest of " + found + ", not of " + name);
}

Json to_json(const std::vector<CostConstant>& constants) {
  Json json = Json::object();
  for (const CostConstant& constant : constants) json[constant.name] = constant.value;
  return json;
}

}  // namespace

int run_model_refit(const Arguments& arguments) {
  const tuner::FitOptions fit_defaults;
  po::options_description options("Options");
  options.add_options()                                                                                          //
      ("template", po::value<std::string>()->value_name("NAME"), "the template: a name, or a manifest file")     //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile (h200, …), index or UUID; default: GPU 0")   //
      ("all-forms", "also trials of earlier forms of the template, where their configurations are still legal")  //
      ("evaluations", po::value<int>()->value_name("N")->default_value(fit_defaults.max_evaluations),
       "evaluations of the model over all trials at most")                                                        //
      ("write", po::value<std::string>()->value_name("FILE"), "put the new values into this manifest, in place")  //
      ("json", "as JSON");
  const auto values = parse(
      {.usage = "kiln model refit --template NAME [--gpu GPU] [--cache FILE] [--write FILE] [options]",
       .summary = "Fits [cost.constants] to the measured trials by coordinate descent and prints the new block, with "
                  "scores before and after. The same trials give the same constants. " +
                  std::string(kScoresHelp)},
      options, arguments);
  if (!values) return done;

  Session session(*values);
  const TemplatePtr t = session.find_template(required_text(*values, "template"));
  const DeviceChoice choice = choose_device(text_or(*values, "gpu", ""));
  if (!t->manifest.cost_cycles || t->manifest.cost_constants.empty()) {
    throw Error(ErrorCode::invalid_argument, t->file +
                                                 ": cost.constants: there are none, so nothing can be fitted; name "
                                                 "the numbers of the cost model there");
  }
  const std::string write_to = text_or(*values, "write", "");
  std::string text;
  if (!write_to.empty()) {
    text = read_text(write_to);
    check_manifest_name(text, write_to, t->manifest.name);
    tuner::with_constants(text, write_to, t->manifest.cost_constants);  // that they match is seen before the fit
  }
  tuner::FitOptions fit_options;
  fit_options.max_evaluations = (*values)["evaluations"].as<int>();
  if (fit_options.max_evaluations < 1)
    throw Error(ErrorCode::invalid_argument, "--evaluations: at least 1 is expected");
  const auto forms = values->count("all-forms") != 0 ? tuner::TrialForms::any : tuner::TrialForms::current;
  const auto problems = tuner::measured_problems(session.store(), *t, choice.device, forms);
  if (problems.empty()) {
    throw Error(ErrorCode::not_found, "no measured trial of " + t->manifest.name + " as it reads now on " +
                                          cuda::hardware_class(choice.device) + " in " + session.store().location() +
                                          "; tune there first, or add --all-forms for those of earlier forms");
  }

  std::size_t trials = 0;
  for (const tuner::MeasuredProblem& each : problems) trials += each.configs.size();
  std::cerr << "Fitting " << t->manifest.cost_constants.size() << " constants to " << trials << " trials of "
            << problems.size() << " problems, in at most " << fit_options.max_evaluations << " evaluations of at most "
            << fit_options.max_configs_per_problem << " trials each; about 20 µs for each trial and core.\n";
  const InterruptScope interrupts;
  const tuner::FitResult fit =
      tuner::fit_constants(*t, problems, choice.device, fit_options, [] { return !InterruptScope::requested(); });
  tuner::ModelEvaluator evaluator(*t, problems, choice.device);
  const auto before = score_problems(*t->op, problems, evaluator.predict(t->manifest.cost_constants));
  const auto after = score_problems(*t->op, problems, evaluator.predict(fit.constants));

  if (values->count("json") != 0) {
    print_json({{"template", t->manifest.name},
                {"hardware_class", cuda::hardware_class(choice.device)},
                {"constants", to_json(fit.constants)},
                {"constants_before", to_json(t->manifest.cost_constants)},
                {"loss", fit.loss_after},
                {"loss_before", fit.loss_before},
                {"evaluations", fit.evaluations},
                {"converged", fit.converged},
                {"before", scores_to_json(before)},
                {"after", scores_to_json(after)}});
  } else {
    print_scores(t->manifest.name + " as it is", before);
    print_scores(t->manifest.name + " refitted", after);
    std::cout << tuner::constants_block(fit.constants) << "\nloss " << fixed(fit.loss_before, 4) << " → "
              << fixed(fit.loss_after, 4) << " in " << fit.evaluations << " evaluations"
              << (fit.converged ? "" : ", not converged: more --evaluations may help")
              << "\nbefore: " << overall_text(before) << "\nafter:  " << overall_text(after) << '\n';
  }
  if (InterruptScope::requested()) return interrupted;
  if (!write_to.empty()) {
    std::ofstream stream(write_to, std::ios::binary | std::ios::trunc);
    stream << tuner::with_constants(text, write_to, fit.constants);
    stream.close();
    if (!stream) throw Error(ErrorCode::io, "--write: " + write_to + " cannot be written");
  }
  return done;
}

}  // namespace kiln::cli
