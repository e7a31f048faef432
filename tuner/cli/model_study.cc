// kiln model study: how near the default search, and the cost models alone, come to an exhaustive search; on a GPU.
#include <iostream>

#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/reporter.h"
#include "tuner/cli/session.h"
#include "tuner/gpu_choice.h"
#include "tuner/lab.h"
#include "tuner/study.h"
#include "tuner/suite.h"

namespace kiln::cli {
namespace {

// No model is that wrong, and what is this slow takes most of the time.
constexpr double kWithin = 2;

constexpr const char* kProtocol =
    "default search: an empty database of its own, shared by the problems in their order, and no shipped winner of any "
    "of them; its seconds are all of its wall time, compiles too. Exhaustive search: every legal configuration of "
    "every "
    "template that is predicted within exhaustive_within times the best prediction (0: all of them), in large spaces "
    "first 2 batches of 0.5 ms and one check each, then the 24 best by the whole protocol (7 batches of 2 ms, "
    "screened) "
    "and the 5 best again in a fresh process (15 batches). Then both winners and the first by prediction that is "
    "usable: "
    "15 interleaved batches of 2 ms in a fresh process, medians. Where reused_trials is true, the quick look at most "
    "candidates was that of an earlier study.";

Json search_json(const TuneResult& result, double us) {
  return {{"template", result.template_name},
          {"config", result.config},
          {"us", us},
          {"tried", result.tried},
          {"failures", result.failures},
          {"compiled", result.compiled},
          {"seconds", result.seconds}};
}

Json results_file(const tuner::Suite& suite, const std::vector<tuner::StudyRow>& rows, Session& session,
                  const tuner::TuningParts& parts, const TuneOptions& tune, const std::string& commit) {
  const OpSpec& op = *session.templates().find_op(suite.op);
  Json list = Json::array();
  for (const tuner::StudyRow& row : rows) {
    Json json = {{"op", row.problem.op},
                 {"problem", short_text(op, row.problem)},
                 {"space", row.exhaustive.space_size},
                 {"default", search_json(row.found, row.found_us)},
                 {"exhaustive", search_json(row.exhaustive, row.exhaustive_us)},
                 {"model",
                  {{"template", row.model_template},
                   {"config", row.model_config},
                   {"us", row.model_us},
                   {"skipped", row.model_skipped}}},
                 {"default_of_best", row.found_of_best()},
                 {"model_of_best", row.model_of_best()}};
    if (!row.failure.empty()) json["failure"] = row.failure;
    list.push_back(std::move(json));
  }
  const tuner::StudySummary summary = tuner::summarise(rows);
  return {{"suite", suite.name},
          {"date", utc_time(unix_now())},
          {"commit", commit},
          {"gpu", parts.device.name},
          {"hardware_class", cuda::hardware_class(parts.device)},
          {"driver", parts.versions.driver},
          {"nvrtc", parts.versions.nvrtc},
          {"exhaustive_within", tune.exhaustive_within},
          {"reused_trials", tune.reuse_trials},
          {"mode", tune.cold ? "cold" : "warm"},
          {"protocol", kProtocol},
          {"rows", list},
          {"summary",
           {{"compared", summary.compared},
            {"mean_loss", summary.mean_loss},
            {"worst_loss", summary.worst_loss},
            {"most_tried", summary.most_tried},
            {"most_seconds", summary.most_seconds},
            {"model_of_best", summary.model_of_best}}}};
}

void print_study(const tuner::Suite& suite, const std::vector<tuner::StudyRow>& rows, Session& session) {
  const OpSpec& op = *session.templates().find_op(suite.op);
  Table table({"problem", ">space", ">best µs", ">tried", ">seconds", ">default", ">model alone", "default's winner"});
  for (const tuner::StudyRow& row : rows) {
    const bool compared = row.failure.empty();
    table.add({short_text(op, row.problem), std::to_string(row.exhaustive.space_size),
               compared ? microseconds(row.found_us * row.found_of_best()) : "-", std::to_string(row.found.tried),
               fixed(row.found.seconds, 1), compared ? fixed(row.found_of_best(), 3) : "-",
               row.model_us > 0 && compared ? fixed(row.model_of_best(), 3) : "-",
               compared ? row.found.template_name + " " + row.found.config : "failed: " + row.failure});
  }
  const tuner::StudySummary summary = tuner::summarise(rows);
  std::cout << table << "default search: " << fixed(100 * summary.mean_loss, 2) << " % below the best in the mean, "
            << fixed(100 * summary.worst_loss, 2) << " % at worst, at most " << summary.most_tried << " candidates and "
            << fixed(summary.most_seconds, 1) << " s; model alone: " << fixed(summary.model_of_best, 3)
            << " of the best in the mean\n";
}

}  // namespace

int run_model_study(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                           //
      ("suite", po::value<std::string>()->value_name("FILE"), "the problems of this suite; ranges are left out")  //
      ("gpu", po::value<std::string>()->value_name("GPU"), "index or UUID; default: GPU 0")                       //
      ("budget", po::value<std::string>()->value_name("TIME"), "hard limit of the whole study, such as 8m")       //
      ("candidates", po::value<int>()->value_name("N")->default_value(TuneOptions{}.max_candidates),
       "measured by the default search per problem at most")  //
      ("within", po::value<double>()->value_name("FACTOR")->default_value(kWithin),
       "the exhaustive search leaves out what is predicted slower than FACTOR times the best prediction; 0: nothing")  //
      ("reuse", "the exhaustive search takes the trials that the database has, and measures the rest and the best")  //
      ("warm", "time with operands in the L2 cache where they fit, instead of cold")                                 //
      ("seed", po::value<std::uint64_t>()->value_name("N")->default_value(TuneOptions{}.seed), "of random data")     //
      ("out", po::value<std::string>()->value_name("FILE"), "write the results file here")                           //
      ("commit", po::value<std::string>()->value_name("TEXT")->default_value("unknown"), "noted in the results")     //
      ("verbose", "a line for every candidate")                                                                      //
      ("json", "the results file's content to stdout");
  const auto values = parse(
      {.usage = "kiln model study --suite FILE [--budget TIME] [--out FILE] [--cache FILE] [options]",
       .summary = "Searches each problem by default and exhaustively, apart from each other, and times both winners "
                  "and the cost model's first choice side by side. What the exhaustive search measures goes into "
                  "the database, where kiln model refit finds it."},
      options, arguments);
  if (!values) return done;

  Session session(*values);
  const tuner::Suite suite = tuner::read_suite(required_text(*values, "suite"), session.templates());
  TuneOptions tune;
  tune.gpu = text_or(*values, "gpu", "");
  if (values->count("budget") != 0) tune.budget = parse_duration((*values)["budget"].as<std::string>(), "budget");
  tune.max_candidates = (*values)["candidates"].as<int>();
  if (tune.max_candidates < 1) throw Error(ErrorCode::invalid_argument, "--candidates: at least 1 is expected");
  tune.exhaustive_within = (*values)["within"].as<double>();
  if (!(tune.exhaustive_within >= 0))
    throw Error(ErrorCode::invalid_argument, "--within: a factor of at least 1, or 0, is expected");
  tune.reuse_trials = values->count("reuse") != 0;
  tune.cold = values->count("warm") == 0;
  tune.seed = (*values)["seed"].as<std::uint64_t>();
  std::vector<Problem> problems;
  for (const tuner::SuiteProblem& entry : suite.problems) problems.push_back(entry.problem);
  if (const DeviceChoice choice = choose_device(tune.gpu); !choice.present) {
    throw Error(ErrorCode::no_device,
                "--gpu: " + tune.gpu + " is a profile; a study measures, so it needs a GPU that is here");
  }

  Progress progress;
  Reporter reporter(progress, session,
                    values->count("verbose") != 0 ? Reporter::Detail::candidates : Reporter::Detail::problems);
  const InterruptScope interrupts;
  tuner::Lab lab(session.options(), tune, tuner::choose_gpu(tune.gpu), session.templates(), reporter);
  const std::vector<tuner::StudyRow> rows = tuner::run_study(lab.parts(), tune, problems, reporter);
  progress.bar(1, "done");

  const Json file = results_file(suite, rows, session, lab.parts(), tune, (*values)["commit"].as<std::string>());
  if (values->count("out") != 0) write_json((*values)["out"].as<std::string>(), file);
  if (values->count("json") != 0) {
    print_json(file);
  } else {
    print_study(suite, rows, session);
  }
  if (InterruptScope::requested()) return interrupted;
  if (rows.size() < problems.size()) {
    std::cerr << "The budget ended after " << rows.size() << " of " << problems.size() << " problems.\n";
    return failed;
  }
  return tuner::summarise(rows).compared == rows.size() ? done : failed;
}

}  // namespace kiln::cli
