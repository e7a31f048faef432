// kiln tune: finds the best configuration of each problem of a suite, or of those named.
#include <algorithm>
#include <iostream>

#include "kiln/tuner.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/progress.h"
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

// How far a problem is by the stage it is in; the stages take about these shares of its time.
double stage_share(const std::string& stage, std::size_t done, std::size_t total) {
  struct Span {
    const char* stage;
    double begin;
    double end;
  };
  static constexpr Span kSpans[] = {{"enumerate", 0, 0.02},
                                    {"compile", 0.02, 0.4},
                                    {"check", 0.4, 0.55},
                                    {"measure", 0.55, 0.9},
                                    {"finalists", 0.9, 1}};
  for (const Span& span : kSpans) {
    if (stage != span.stage) continue;
    const double share = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
    return span.begin + (span.end - span.begin) * share;
  }
  return 0;
}

class Reporter : public TuneObserver {
 public:
  Reporter(Progress& progress, Session& session, bool verbose)
      : progress_(progress), session_(session), verbose_(verbose) {}

  void problem_started(std::size_t index, std::size_t count, const Problem& problem) override {
    index_ = index;
    count_ = count;
    name_ = short_text(*session_.templates().find_op(problem.op), problem);
    draw("starts", 0);
  }

  void progress(const std::string& stage, std::size_t done, std::size_t total) override {
    draw(stage + " " + std::to_string(done) + "/" + std::to_string(total), stage_share(stage, done, total));
  }

  void trial_ended(const std::string& candidate, double us, const std::string& failure) override {
    if (verbose_) progress_.line("    " + candidate + ": " + (failure.empty() ? microseconds(us) + " µs" : failure));
  }

  void problem_ended(std::size_t index, const TuneResult& result) override {
    std::string line = "[" + std::to_string(index + 1) + "/" + std::to_string(std::max(count_, index + 1)) + "] " +
                       short_text(*session_.templates().find_op(result.problem.op), result.problem) + ": ";
    if (result.failed) {
      line += "failed: " + result.message;
    } else {
      line += result.template_name + " " + result.config;
      if (result.time_us > 0)
        line += ", " + microseconds(result.time_us) + " µs" + (result.measured ? "" : " predicted");
      if (result.baseline_us > 0)
        line += ", " + fixed(result.baseline_us / result.time_us, 2) + " × " + result.baseline;
      line += result.from_store ? ", from the store"
                                : ", " + std::to_string(result.tried) + " tried, " + std::to_string(result.failures) +
                                      " failed, " + fixed(result.seconds, 1) + " s";
    }
    progress_.line(line);
  }

  void warning(const std::string& text) override { progress_.line("warning: " + text); }
  bool stop_requested() override { return InterruptScope::requested(); }

 private:
  void draw(const std::string& what, double share_of_problem) {
    const double share =
        count_ == 0 ? 0 : (static_cast<double>(index_) + share_of_problem) / static_cast<double>(count_);
    progress_.bar(share, std::to_string(index_ + 1) + "/" + std::to_string(count_) + " " + name_ + ": " + what);
  }

  Progress& progress_;
  Session& session_;
  bool verbose_;
  std::size_t index_ = 0;
  std::size_t count_ = 0;
  std::string name_;
};

std::vector<Problem> chosen_problems(const po::variables_map& values, const TemplateSet& templates) {
  const std::vector<std::string> given = texts(values, "problem");
  if (values.count("suite") != 0) {
    if (!given.empty()) throw Error(ErrorCode::invalid_argument, "--suite and --problem are two ways; give one");
    std::vector<Problem> problems;
    for (auto& entry : tuner::read_suite(values["suite"].as<std::string>(), templates).problems) {
      problems.push_back(std::move(entry.problem));
    }
    return problems;
  }
  if (given.empty()) throw Error(ErrorCode::invalid_argument, "say what to tune: --suite FILE, or --problem FIELDS");
  std::vector<Problem> problems;
  for (const std::string& fields : given) {
    problems.push_back(problem_from_flags(templates, values["op"].as<std::string>(), fields));
  }
  return problems;
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
  options.resume = values.count("no-resume") == 0;
  options.cold = values.count("warm") == 0;
  options.seed = values["seed"].as<std::uint64_t>();
  options.templates = texts(values, "template");
  return options;
}

}  // namespace

int run_tune(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                    //
      ("suite", po::value<std::string>()->value_name("FILE"), "the problems of this suite")                //
      ("op", po::value<std::string>()->value_name("OP")->default_value("gemm"), "operation of --problem")  //
      ("problem", po::value<std::vector<std::string>>()->value_name("FIELDS"),
       "a problem, m=4096,n=4096,k=4096,dtype=bf16 (repeatable)")  //
      ("gpu", po::value<std::string>()->value_name("GPU"),
       "index, UUID, or profile (h200, …): predicts without that GPU")                                            //
      ("predict", "rank by cost model and compiled resources, measuring nothing")                                 //
      ("budget", po::value<std::string>()->value_name("TIME"), "hard limit of the whole run, such as 60s or 5m")  //
      ("search", po::value<std::string>()->value_name("KIND")->default_value("auto"),
       "auto, exhaustive, random or evolve")  //
      ("candidates", po::value<int>()->value_name("N")->default_value(TuneOptions{}.max_candidates),
       "measured per problem at most (not for exhaustive)")                                                       //
      ("resume", "use decisions and trials already stored (the default)")                                         //
      ("no-resume", "measure everything anew")                                                                    //
      ("warm", "time with operands in the L2 cache where they fit, instead of cold")                              //
      ("template", po::value<std::vector<std::string>>()->value_name("NAME"), "only this template (repeatable)")  //
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
  const std::vector<Problem> problems = chosen_problems(*values, session.templates());
  const DeviceChoice choice = choose_device(tune.gpu);

  Progress progress;
  Reporter reporter(progress, session, values->count("verbose") != 0);
  const InterruptScope interrupts;
  const std::vector<TuneResult> results = Tuner(session.options(), tune).tune(problems, reporter);

  if (values->count("json") != 0) {
    Json json = Json::array();
    for (const TuneResult& result : results) {
      json.push_back(to_json(result, short_text(*session.templates().find_op(result.problem.op), result.problem)));
    }
    print_json(json);
  } else {
    print_table(results, session, choice.device);
  }
  if (InterruptScope::requested()) {
    std::cerr << "Interrupted after " << results.size() << " of " << problems.size()
              << " problems; all that ended is kept, the same command goes on from here.\n";
    return interrupted;
  }
  if (results.size() < problems.size()) {
    std::cerr << "The budget ended after " << results.size() << " of " << problems.size()
              << " problems; the same command goes on from here.\n";
  }
  const bool any_failed = std::any_of(results.begin(), results.end(), [](const TuneResult& r) { return r.failed; });
  return any_failed ? failed : done;
}

}  // namespace kiln::cli
