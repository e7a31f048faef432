// kiln model replay: what the default search finds among the stored trials of exhaustive searches; without a GPU.
#include <algorithm>
#include <iostream>

#include "tuner/cli/commands.h"
#include "tuner/cli/device_choice.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/session.h"
#include "tuner/replay.h"

namespace kiln::cli {
namespace {

struct Summary {
  double found = 0;  // of the best, mean over the problems
  double worst = 1;
  double model = 0;
};

Summary summarise(const std::vector<tuner::Replay>& replays) {
  Summary summary;
  for (const tuner::Replay& each : replays) {
    summary.found += each.found_of_best() / static_cast<double>(replays.size());
    summary.model += each.model_of_best() / static_cast<double>(replays.size());
    summary.worst = std::min(summary.worst, each.found_of_best());
  }
  return summary;
}

Json to_json(const OpSpec& op, const std::vector<tuner::Replay>& replays) {
  Json rows = Json::array();
  for (const tuner::Replay& each : replays) {
    rows.push_back({{"problem", short_text(op, each.problem)},
                    {"known", each.known},
                    {"tried", each.tried},
                    {"unknown", each.unknown},
                    {"best", each.best},
                    {"best_us", each.best_us},
                    {"found", each.found},
                    {"found_of_best", each.found_of_best()},
                    {"model_of_best", each.model_of_best()}});
  }
  const Summary summary = summarise(replays);
  return {
      {"rows", rows},
      {"summary",
       {{"found_of_best", summary.found}, {"worst_found_of_best", summary.worst}, {"model_of_best", summary.model}}}};
}

void print(const OpSpec& op, const std::vector<tuner::Replay>& replays) {
  Table table({"problem", ">known", ">best µs", ">tried", ">unknown", ">found", ">model alone", "the best"});
  for (const tuner::Replay& each : replays) {
    table.add({short_text(op, each.problem), std::to_string(each.known), microseconds(each.best_us),
               std::to_string(each.tried), std::to_string(each.unknown), fixed(each.found_of_best(), 3),
               fixed(each.model_of_best(), 3), each.best});
  }
  const Summary summary = summarise(replays);
  std::cout << table << "search: " << fixed(100 * (1 - summary.found), 2) << " % below the best in the mean, "
            << fixed(100 * (1 - summary.worst), 2) << " % at worst; model alone: " << fixed(summary.model, 3)
            << " of the best in the mean\n";
}

}  // namespace

int run_model_replay(const Arguments& arguments) {
  const tuner::ReplayOptions defaults;
  po::options_description options("Options");
  options.add_options()                                                                                         //
      ("op", po::value<std::string>()->value_name("NAME")->default_value("gemm"), "whose problems")             //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile (h200, …), index or UUID; default: GPU 0")  //
      ("candidates", po::value<std::size_t>()->value_name("N")->default_value(defaults.max_candidates),
       "measured by a search at most")  //
      ("near", po::value<std::size_t>()->value_name("N")->default_value(defaults.near_winners),
       "winners of the problems before it that a search starts from")  //
      ("known", po::value<std::size_t>()->value_name("N")->default_value(defaults.fewest_known),
       "leave out problems with fewer measured candidates")                                                    //
      ("all-forms", "also trials of earlier forms of a template, where their configurations are still legal")  //
      ("seed", po::value<std::uint64_t>()->value_name("N")->default_value(defaults.seed), "of the search")     //
      ("json", "as JSON");
  const auto values = parse(
      {.usage = "kiln model replay [--op NAME] [--gpu GPU] [--cache FILE] [options]",
       .summary = "Plays the default search against the database: each candidate it proposes takes the time of its "
                  "stored trial, one without a trial fails. After `kiln model study` the database has trials of nearly "
                  "every candidate, so that a change of the search or of a cost model can be judged without a GPU."},
      options, arguments);
  if (!values) return done;

  Session session(*values);
  const auto op = (*values)["op"].as<std::string>();
  const tuner::ReplayOptions replay{
      .max_candidates = std::max<std::size_t>(1, (*values)["candidates"].as<std::size_t>()),
      .seed = (*values)["seed"].as<std::uint64_t>(),
      .forms = values->count("all-forms") != 0 ? tuner::TrialForms::any : tuner::TrialForms::current,
      .near_winners = (*values)["near"].as<std::size_t>(),
      .fewest_known = std::max<std::size_t>(1, (*values)["known"].as<std::size_t>())};
  const DeviceChoice choice = choose_device(text_or(*values, "gpu", ""));
  const std::vector<tuner::Replay> replays =
      tuner::replay_searches(session.templates(), session.store(), op, choice.device, replay);
  if (replays.empty()) {
    throw Error(ErrorCode::not_found, "no problem of " + op + " with " + std::to_string(replay.fewest_known) +
                                          " measured candidates on " + cuda::hardware_class(choice.device) + " in " +
                                          session.store().location() + "; run `kiln model study` there first");
  }
  const OpSpec& spec = *session.templates().find_op(op);
  if (values->count("json") != 0) {
    print_json(to_json(spec, replays));
  } else {
    print(spec, replays);
  }
  return done;
}

}  // namespace kiln::cli
