// kiln tune: finds the best configuration of each problem of a suite, or of those named, and dispatch tables over
// ranges.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <variant>

#include "kiln/tuner.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/reporter.h"
#include "tuner/cli/roofline.h"
#include "tuner/cli/session.h"
#include "tuner/suite.h"

namespace kiln::cli {
namespace {

SearchKind parse_search(const std::string& text) {
  if (text == "auto") return SearchKind::automatic;
  if (text == "exhaustive") return SearchKind::exhaustive;
  if (text == "random") return SearchKind::random;
  if (text == "evolve") return SearchKind::evolve;
  throw Error(ErrorCode::invalid_argument, "--search: '" + text + "' is none of auto, exhaustive, random, evolve");
}

// The end of a budget that several runs share; none when the budget is 0.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(std::chrono::milliseconds budget) {
    if (budget.count() > 0) end_ = Clock::now() + budget;
  }
  bool passed() const { return end_ && Clock::now() >= *end_; }
  // 0 without a budget.
  std::chrono::milliseconds left() const {
    if (!end_) return std::chrono::milliseconds(0);
    return std::max(std::chrono::milliseconds(1),
                    std::chrono::duration_cast<std::chrono::milliseconds>(*end_ - Clock::now()));
  }

 private:
  std::optional<Clock::time_point> end_;
};

struct Wanted {
  std::vector<Problem> problems;
  std::vector<ProblemRange> ranges;
};

Wanted chosen_problems(const po::variables_map& values, const TemplateSet& templates) {
  const std::vector<std::string> given = texts(values, "problem");
  Wanted wanted;
  if (values.count("suite") != 0) {
    if (!given.empty()) throw Error(ErrorCode::invalid_argument, "--suite and --problem are two ways; give one");
    tuner::Suite suite = tuner::read_suite(values["suite"].as<std::string>(), templates);
    for (auto& entry : suite.problems) wanted.problems.push_back(std::move(entry.problem));
    for (auto& entry : suite.ranges) wanted.ranges.push_back(std::move(entry.range));
    return wanted;
  }
  if (given.empty()) throw Error(ErrorCode::invalid_argument, "say what to tune: --suite FILE, or --problem FIELDS");
  for (const std::string& fields : given) {
    ProblemOrRange each = problem_or_range_from_flags(templates, values["op"].as<std::string>(), fields);
    if (auto* range = std::get_if<ProblemRange>(&each)) {
      wanted.ranges.push_back(std::move(*range));
    } else {
      wanted.problems.push_back(std::get<Problem>(std::move(each)));
    }
  }
  return wanted;
}

Json to_json(const TuneResult& result, const std::string& problem) {
  return {{"op", result.problem.op},
          {"problem", problem},
          {"failed", result.failed},
          {"message", result.message},
          {"from_store", result.from_store},
          {"template", result.template_name},
          {"config", result.config},
          {"measured", result.measured},
          {"time_us", result.time_us},
          {"spread", result.spread},
          {"error", result.error},
          {"baseline", result.baseline},
          {"baseline_us", result.baseline_us},
          {"space_size", result.space_size},
          {"compiled", result.compiled},
          {"tried", result.tried},
          {"failures", result.failures},
          {"seconds", result.seconds}};
}

double loss(const RangeInterval& interval) {
  return interval.best_us > 0 ? interval.time_us / interval.best_us - 1 : 0;
}

Json to_json(const RangeResult& result, const std::string& text) {
  Json intervals = Json::array();
  for (const RangeInterval& each : result.intervals) {
    intervals.push_back({{"first", each.first},
                         {"last", each.last},
                         {"template", each.template_name},
                         {"config", each.config},
                         {"time_us", each.time_us},
                         {"best_us", each.best_us > 0 ? Json(each.best_us) : Json()},
                         {"baseline", each.baseline},
                         {"baseline_us", each.baseline_us}});
  }
  return {{"op", result.range.given.op},
          {"range", text},
          {"dim", result.range.dim},
          {"failed", result.failed},
          {"message", result.message},
          {"from_store", result.from_store},
          {"measured", result.measured},
          {"intervals", intervals},
          {"kernels", result.kernels},
          {"winning_kernels", result.winners},
          {"tuned_values", result.samples.size()},
          {"seconds", result.seconds}};
}

// Neighbouring intervals that one configuration serves are shown as one, with the time at its end and the worst loss.
void print_range(const RangeResult& result, const std::string& text) {
  std::cout << '\n' << text << (result.measured ? "" : " (predicted)") << '\n';
  if (result.failed) {
    std::cout << "no table: " << result.message << '\n';
    return;
  }
  Table table({">" + result.range.dim, ">µs", ">above best", ">× baseline", "configuration"});
  double sum = 0;
  double worst = 0;
  for (std::size_t i = 0; i < result.intervals.size(); ++i) {
    const RangeInterval& begin = result.intervals[i];
    double above = loss(begin);
    while (i + 1 < result.intervals.size() && result.intervals[i + 1].template_name == begin.template_name &&
           result.intervals[i + 1].config == begin.config &&
           result.intervals[i + 1].first == result.intervals[i].last + 1) {
      above = std::max(above, loss(result.intervals[++i]));
    }
    const RangeInterval& end = result.intervals[i];
    table.add({std::to_string(begin.first) + "–" + std::to_string(end.last), microseconds(end.time_us),
               end.best_us > 0 ? percent(above) : "stored",
               end.baseline_us > 0 ? fixed(end.baseline_us / end.time_us, 2) : "-",
               end.template_name + " " + end.config});
  }
  for (const RangeInterval& each : result.intervals) {
    sum += loss(each);
    worst = std::max(worst, loss(each));
  }
  std::cout << table << result.samples.size() << " values, " << result.kernels << " compiled kernels";
  if (!result.from_store && !result.intervals.empty()) {
    std::cout << " instead of " << result.winners << ", above the best by "
              << fixed(100 * sum / static_cast<double>(result.intervals.size()), 1) << " % in the mean and "
              << fixed(100 * worst, 1) << " % at most";
  }
  std::cout << '\n';
  if (!result.message.empty()) std::cout << "note: " << result.message << '\n';
}

void print_table(const std::vector<TuneResult>& results, Session& session, const cuda::DeviceInfo& device) {
  Table table({"problem", ">µs", ">rate", ">roofline", ">× baseline", ">space", ">tried", ">failed", "winner"});
  for (const TuneResult& result : results) {
    const OpSpec& op = *session.templates().find_op(result.problem.op);
    const std::string problem = short_text(op, result.problem);
    if (result.failed) {
      table.add({problem, "-", "-", "-", "-", std::to_string(result.space_size), std::to_string(result.tried),
                 std::to_string(result.failures), "none: " + result.message});
      continue;
    }
    const Roofline roof = roofline(op, result.problem, device);
    const bool timed = result.time_us > 0;
    table.add({problem, timed ? microseconds(result.time_us) : "-", timed ? throughput(roof, result.time_us) : "-",
               timed ? percent(roof.share(result.time_us)) : "-",
               result.baseline_us > 0 ? fixed(result.baseline_us / result.time_us, 2) : "-",
               result.from_store ? "stored" : std::to_string(result.space_size), std::to_string(result.tried),
               std::to_string(result.failures),
               result.template_name + " " + result.config + (result.measured ? "" : " (predicted)")});
  }
  std::cout << table;
}

TuneOptions tune_options(const po::variables_map& values) {
  TuneOptions options;
  options.gpu = text_or(values, "gpu", "");
  options.predict = values.count("predict") != 0;
  options.search = parse_search(values["search"].as<std::string>());
  if (values.count("budget") != 0) options.budget = parse_duration(values["budget"].as<std::string>(), "budget");
  options.max_candidates = values["candidates"].as<int>();
  if (options.max_candidates < 1) throw Error(ErrorCode::invalid_argument, "--candidates: at least 1 is expected");
  if (values.count("resume") != 0 && values.count("no-resume") != 0) {
    throw Error(ErrorCode::invalid_argument, "--resume and --no-resume contradict each other; give one");
  }
  options.resume = options.reuse_trials = values.count("no-resume") == 0;
  options.cold = values.count("warm") == 0;
  options.seed = values["seed"].as<std::uint64_t>();
  options.templates = texts(values, "template");
  options.deterministic = values.count("nondeterministic") == 0;
  options.range_slack = values["slack"].as<double>() / 100;
  if (!(options.range_slack >= 0))
    throw Error(ErrorCode::invalid_argument, "--slack: a percentage of at least 0 is expected");
  if (values.count("problem-limit") != 0) {
    options.problem_limit = parse_duration(values["problem-limit"].as<std::string>(), "problem-limit");
  }
  return options;
}

}  // namespace

int run_tune(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                    //
      ("suite", po::value<std::string>()->value_name("FILE"), "the problems of this suite")                //
      ("op", po::value<std::string>()->value_name("OP")->default_value("gemm"), "operation of --problem")  //
      ("problem", po::value<std::vector<std::string>>()->value_name("FIELDS"),
       "a problem, m=4096,n=4096,k=4096,dtype=bf16, or a range of one dim, m=1..8192,n=… (repeatable)")  //
      ("gpu", po::value<std::string>()->value_name("GPU"),
       "index, UUID, or profile (h200, …): predicts without that GPU")                                            //
      ("predict", "rank by cost model and compiled resources, measuring nothing")                                 //
      ("budget", po::value<std::string>()->value_name("TIME"), "hard limit of the whole run, such as 60s or 5m")  //
      ("search", po::value<std::string>()->value_name("KIND")->default_value("auto"),
       "auto, exhaustive, random or evolve")  //
      ("candidates", po::value<int>()->value_name("N")->default_value(TuneOptions{}.max_candidates),
       "measured per problem at most (not for exhaustive)")  //
      ("problem-limit", po::value<std::string>()->value_name("TIME"),
       "for one problem's automatic search, 0 for none; default 10s")  //
      ("slack", po::value<double>()->value_name("PERCENT")->default_value(100 * TuneOptions{}.range_slack),
       "how much slower than the best a range's choice may be, for fewer kernels")                                //
      ("resume", "use decisions and trials already stored (the default)")                                         //
      ("no-resume", "measure everything anew")                                                                    //
      ("warm", "time with operands in the L2 cache where they fit, instead of cold")                              //
      ("template", po::value<std::vector<std::string>>()->value_name("NAME"), "only this template (repeatable)")  //
      ("nondeterministic", "also templates whose results differ from run to run")                                 //
      ("seed", po::value<std::uint64_t>()->value_name("N")->default_value(TuneOptions{}.seed),
       "of random choices and data")             //
      ("verbose", "a line for every candidate")  //
      ("json", "the results as JSON");
  const auto values =
      parse({.usage = "kiln tune (--suite FILE | --problem FIELDS…) [--gpu GPU] [--budget TIME] [options]",
             .summary = "Tunes. Ctrl-C keeps all that ended and exits 5; running again goes on from there."},
            options, arguments);
  if (!values) return done;

  Session session(*values);
  const TuneOptions tune = tune_options(*values);
  for (const std::string& name : tune.templates) session.templates().find(name);
  const Wanted wanted = chosen_problems(*values, session.templates());
  const DeviceChoice choice = choose_device(tune.gpu);

  Progress progress;
  const auto detail = values->count("verbose") != 0 ? Reporter::Detail::candidates : Reporter::Detail::problems;
  Reporter reporter(progress, session, detail);
  const InterruptScope interrupts;
  const Deadline deadline(tune.budget);
  std::vector<TuneResult> results;
  if (!wanted.problems.empty()) results = Tuner(session.options(), tune).tune(wanted.problems, reporter);
  std::vector<RangeResult> ranges;
  for (const ProblemRange& range : wanted.ranges) {
    if (InterruptScope::requested() || deadline.passed()) break;
    TuneOptions with_rest = tune;
    with_rest.budget = deadline.left();
    ranges.push_back(Tuner(session.options(), with_rest).tune_range(range, reporter));
  }

  const auto op_of = [&](const Problem& problem) { return session.templates().find_op(problem.op); };
  if (values->count("json") != 0) {
    Json json = Json::array();
    for (const TuneResult& result : results) {
      json.push_back(to_json(result, short_text(*op_of(result.problem), result.problem)));
    }
    for (const RangeResult& result : ranges) {
      json.push_back(to_json(result, short_text(*op_of(result.range.given), result.range)));
    }
    print_json(json);
  } else {
    if (!results.empty()) print_table(results, session, choice.device);
    for (const RangeResult& result : ranges) print_range(result, short_text(*op_of(result.range.given), result.range));
  }
  const std::size_t ended = results.size() + ranges.size();
  const std::size_t count = wanted.problems.size() + wanted.ranges.size();
  if (InterruptScope::requested()) {
    std::cerr << "Interrupted after " << ended << " of " << count
              << " problems; all that ended is kept, the same command goes on from here.\n";
    return interrupted;
  }
  if (ended < count) {
    std::cerr << "The budget ended after " << ended << " of " << count
              << " problems; the same command goes on from here.\n";
  }
  const bool any_failed = std::any_of(results.begin(), results.end(), [](const TuneResult& r) { return r.failed; }) ||
                          std::any_of(ranges.begin(), ranges.end(), [](const RangeResult& r) { return r.failed; });
  return any_failed ? failed : done;
}

}  // namespace kiln::cli
