// kiln bench: the known configurations of a suite against other libraries, timed in the same rounds; writes the results
// file that README numbers are made from.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/text.h"
#include "runtime/dispatch.h"
#include "tuner/bench.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/roofline.h"
#include "tuner/cli/session.h"
#include "tuner/range.h"
#include "tuner/suite.h"

namespace kiln::cli {
namespace {

struct Measured {
  BenchRow row;
  double weight = 1;
  std::string text;  // the problem, as --problem reads it
  Roofline roof;
};

Json to_json(const Measured& measured) {
  const BenchRow& row = measured.row;
  Json peers = Json::object();
  for (const auto& [name, timing] : row.peers) peers[name] = {{"us", timing.median_us}, {"spread", timing.spread}};
  Json json = {{"op", row.problem.op},
               {"problem", measured.text},
               {"weight", measured.weight},
               {"config", row.provenance.template_name + " " + to_text(row.provenance.config)},
               {"provenance", to_string(row.provenance.rung)},
               {"roofline_us", measured.roof.us},
               {"memory_bound", measured.roof.memory_bound},
               {"flops", measured.roof.flops},
               {"bytes", measured.roof.bytes},
               {"peers", peers}};
  if (row.kiln) {
    json["kiln_us"] = row.kiln->median_us;
    json["kiln_spread"] = row.kiln->spread;
    json["error"] = row.kiln->error;
    json["sm_clock_mhz"] = row.kiln->sm_clock_mhz;
  } else if (row.failure) {
    json["failure"] = {{"kind", to_string(row.failure->kind)}, {"message", row.failure->message}};
  }
  if (!row.peer_failures.empty()) json["peer_failures"] = row.peer_failures;
  if (!row.warnings.empty()) json["warnings"] = row.warnings;
  if (row.foreign_work) json["foreign_work"] = true;
  return json;
}

std::string protocol(const BenchOptions& options, int passes) {
  std::string of_a_pass = std::to_string(options.rounds) +
                          " interleaved batches of at least 2 ms in CUDA graphs, random normal data, median and "
                          "interquartile range over median";
  if (passes == 1) return of_a_pass;
  // Who was interrupted has rows of one pass less.
  return of_a_pass + "; of these medians the median over " + (InterruptScope::requested() ? "at most " : "") +
         std::to_string(passes) + " passes through the suite, and their range over it";
}

Json results_file(const tuner::Suite& suite, const std::vector<Measured>& rows, const Bench& bench,
                  const BenchOptions& options, int passes, const std::string& commit) {
  Json digests = Json::object();
  Json list = Json::array();
  for (const Measured& measured : rows) {
    digests[measured.row.provenance.template_name] = measured.row.template_digest;
    list.push_back(to_json(measured));
  }
  return {{"suite", suite.name},
          {"date", utc_time(unix_now())},
          {"commit", commit},
          {"template_digest", digests},
          {"gpu", bench.device().name},
          {"hardware_class", cuda::hardware_class(bench.device())},
          {"driver", bench.versions().driver},
          {"nvrtc", bench.versions().nvrtc},
          {"mode", options.cold ? "cold" : "warm"},
          {"protocol", protocol(options, passes)},
          {"rows", list}};
}

// How many times as fast as the peer, or empty when either has no time.
std::optional<double> ratio(const Measured& measured, const std::string& peer) {
  const auto found = measured.row.peers.find(peer);
  if (!measured.row.kiln || found == measured.row.peers.end() || measured.row.kiln->median_us <= 0) return std::nullopt;
  return found->second.median_us / measured.row.kiln->median_us;
}

struct Summary {
  double geometric_mean = 0;
  const Measured* worst = nullptr;
  double minimum = 0;
};
std::optional<Summary> summarise(const std::vector<Measured>& rows, const std::string& peer) {
  Summary summary;
  double log_sum = 0;
  double weights = 0;
  for (const Measured& measured : rows) {
    const std::optional<double> value = ratio(measured, peer);
    if (!value) continue;
    log_sum += measured.weight * std::log(*value);
    weights += measured.weight;
    if (summary.worst == nullptr || *value < summary.minimum) {
      summary.worst = &measured;
      summary.minimum = *value;
    }
  }
  if (summary.worst == nullptr) return std::nullopt;
  summary.geometric_mean = std::exp(log_sum / weights);
  return summary;
}

std::vector<std::string> cells(const Measured& measured, const std::vector<std::string>& peers) {
  const BenchRow& row = measured.row;
  std::vector<std::string> cells = {measured.text};
  if (row.kiln) {
    const double us = row.kiln->median_us;
    cells.insert(cells.end(), {microseconds(us), percent(row.kiln->spread), throughput(measured.roof, us),
                               percent(measured.roof.share(us))});
  } else {
    cells.insert(cells.end(), {"-", "-", "-", "-"});
  }
  for (const std::string& peer : peers) {
    const std::optional<double> value = ratio(measured, peer);
    cells.push_back(value ? fixed(*value, 2) : "-");
  }
  cells.push_back(row.failure ? to_string(row.failure->kind) + std::string(": ") + row.failure->message
                              : std::string(to_string(row.provenance.rung)) + " " + row.provenance.template_name + " " +
                                    to_text(row.provenance.config));
  return cells;
}

// The table, then per peer the geometric mean and the minimum, and the worst row last.
void print_results(const std::vector<Measured>& rows, const std::vector<std::string>& peers) {
  std::vector<std::string> headings = {"problem", ">µs", ">spread", ">rate", ">roofline"};
  for (const std::string& peer : peers) headings.push_back(">× " + peer);
  headings.emplace_back("configuration");
  Table table(headings);
  for (const Measured& measured : rows) table.add(cells(measured, peers));
  std::cout << table << '\n';
  const Measured* worst = nullptr;
  double minimum = 0;
  std::string worst_peer;
  for (const std::string& peer : peers) {
    const std::optional<Summary> summary = summarise(rows, peer);
    if (!summary) {
      std::cout << peer << ": no row has a time\n";
      continue;
    }
    std::cout << "× " << peer << ": geometric mean " << fixed(summary->geometric_mean, 3) << ", minimum "
              << fixed(summary->minimum, 3) << '\n';
    if (worst == nullptr || summary->minimum < minimum) {
      worst = summary->worst;
      minimum = summary->minimum;
      worst_peer = peer;
    }
  }
  if (worst != nullptr) {
    std::cout << "worst: " << worst->text << " at " << fixed(minimum, 3) << " × " << worst_peer << ", "
              << worst->row.provenance.template_name << " " << to_text(worst->row.provenance.config) << '\n';
  }
}

void refuse_unknown_peers(const std::vector<std::string>& peers, const std::string& op) {
  const std::vector<std::string> known = bench_peers(op);
  for (const std::string& peer : peers) {
    if (std::find(known.begin(), known.end(), peer) != known.end()) continue;
    throw Error(ErrorCode::invalid_argument, "--peer: op " + op + " has no peer '" + peer + "'" +
                                                 did_you_mean(peer, known) + "; it has " + join(known, ", "));
  }
}

BenchOptions bench_options(const po::variables_map& values) {
  BenchOptions options;
  options.gpu = text_or(values, "gpu", "");
  options.peers = texts(values, "peer");
  options.cold = values.count("warm") == 0;
  options.rounds = values["rounds"].as<int>();
  options.only_template = text_or(values, "template", "");
  constexpr int kFewestRounds = 5;
  if (options.rounds < kFewestRounds) {
    throw Error(ErrorCode::invalid_argument, "--rounds: fewer than 5 say too little; give 5 or more");
  }
  return options;
}

}  // namespace

int run_bench(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                //
      ("suite", po::value<std::string>()->value_name("FILE"), "the problems to time")  //
      ("peer", po::value<std::vector<std::string>>()->value_name("NAME"),
       "cublaslt_default, cublaslt_best, … (repeatable)")                                                         //
      ("gpu", po::value<std::string>()->value_name("GPU"), "index or UUID; default: GPU 0")                       //
      ("out", po::value<std::string>()->value_name("FILE"), "write the results there as JSON")                    //
      ("warm", "operands in the L2 cache where they fit, instead of cold")                                        //
      ("rounds", po::value<int>()->value_name("N")->default_value(BenchOptions{}.rounds), "interleaved batches")  //
      ("passes", po::value<int>()->value_name("N")->default_value(1),
       "passes through the suite, since a GPU that meets its power limit is not the same from minute to minute")  //
      ("template", po::value<std::string>()->value_name("NAME"), "only this template's configurations")           //
      ("commit", po::value<std::string>()->value_name("TEXT")->default_value("unknown"), "noted in the results")  //
      ("json", "print the results file instead of the table");
  const auto values =
      parse({.usage = "kiln bench --suite FILE [--peer NAME…] [--out FILE] [options]",
             .summary = "Times what kiln query answers against other libraries. Needs a GPU; tunes nothing."},
            options, arguments);
  if (!values) return done;

  Session session(*values);
  const BenchOptions bench_with = bench_options(*values);
  const int passes = (*values)["passes"].as<int>();
  if (passes < 1) throw Error(ErrorCode::invalid_argument, "--passes: at least 1 is expected");
  if (!bench_with.only_template.empty()) session.templates().find(bench_with.only_template);
  tuner::Suite suite = tuner::read_suite(required_text(*values, "suite"), session.templates());
  refuse_unknown_peers(bench_with.peers, suite.op);
  if (const DeviceChoice choice = choose_device(bench_with.gpu); !choice.present) {
    throw Error(ErrorCode::no_device, "--gpu: " + bench_with.gpu + " is a profile; timing needs a GPU that is here");
  }
  const auto op = session.templates().find_op(suite.op);
  // A range is timed at the values it is tuned at, which share its weight.
  for (const auto& [range, weight] : suite.ranges) {
    const auto extents = tuner::sample_extents(range, session.templates().of_op(suite.op));
    for (const std::int64_t extent : extents) {
      suite.problems.push_back(
          {with_extent(*op, range.given, range.dim, extent), weight / static_cast<double>(extents.size())});
    }
  }

  Progress progress;
  const InterruptScope interrupts;
  Bench bench(session.options(), bench_with);
  std::vector<std::vector<BenchRow>> timed(suite.problems.size());
  const std::size_t all = suite.problems.size() * static_cast<std::size_t>(passes);
  std::size_t done_timings = 0;
  for (; done_timings < all && !InterruptScope::requested(); ++done_timings) {
    const std::size_t i = done_timings % suite.problems.size();
    const Problem& problem = suite.problems[i].problem;
    progress.bar(static_cast<double>(done_timings) / static_cast<double>(all), short_text(*op, problem));
    timed[i].push_back(bench.bench_problem(problem));
  }
  progress.bar(1, "done");
  std::vector<Measured> rows;
  for (std::size_t i = 0; i < suite.problems.size() && !timed[i].empty(); ++i) {
    const tuner::SuiteProblem& entry = suite.problems[i];
    rows.push_back({.row = merge_passes(timed[i]),
                    .weight = entry.weight,
                    .text = short_text(*op, entry.problem),
                    .roof = roofline(*op, entry.problem, bench.device())});
    const Measured& row = rows.back();
    for (const std::string& warning : row.row.warnings) progress.line(row.text + ": warning: " + warning);
    for (const auto& [peer, why] : row.row.peer_failures) progress.line(row.text + ": " + peer + ": " + why);
  }

  const Json file = results_file(suite, rows, bench, bench_with, passes, (*values)["commit"].as<std::string>());
  if (values->count("out") != 0) write_json((*values)["out"].as<std::string>(), file);
  if (values->count("json") != 0) {
    print_json(file);
  } else {
    std::cout << suite.name << " on " << bench.device().name << ", " << (bench_with.cold ? "cold" : "warm") << '\n';
    print_results(rows, bench_with.peers);
  }
  if (InterruptScope::requested()) {
    std::cerr << "Interrupted after " << done_timings << " of " << all << " timings.\n";
    return interrupted;
  }
  const bool any_failed = std::any_of(rows.begin(), rows.end(), [](const Measured& m) { return !m.row.kiln; });
  return any_failed ? failed : done;
}

}  // namespace kiln::cli
