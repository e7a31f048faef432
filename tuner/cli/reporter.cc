#include "tuner/cli/reporter.h"

#include <algorithm>

#include "tuner/cli/interrupt.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"

namespace kiln::cli {
namespace {

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

}  // namespace

void Reporter::problem_started(std::size_t index, std::size_t count, const Problem& problem) {
  index_ = index;
  count_ = count;
  name_ = short_text(*session_.templates().find_op(problem.op), problem);
  draw("starts", 0);
}

void Reporter::progress(const std::string& stage, std::size_t done, std::size_t total) {
  draw(stage + " " + std::to_string(done) + "/" + std::to_string(total), stage_share(stage, done, total));
}

void Reporter::trial_ended(const std::string& candidate, double us, const std::string& failure) {
  if (detail_ == Detail::candidates)
    progress_.line("    " + candidate + ": " + (failure.empty() ? microseconds(us) + " µs" : failure));
}

void Reporter::problem_ended(std::size_t index, const TuneResult& result) {
  std::string line = "[" + std::to_string(index + 1) + "/" + std::to_string(std::max(count_, index + 1)) + "] " +
                     short_text(*session_.templates().find_op(result.problem.op), result.problem) + ": ";
  if (result.failed) {
    line += "failed: " + result.message;
  } else {
    line += result.template_name + " " + result.config;
    if (result.time_us > 0) line += ", " + microseconds(result.time_us) + " µs" + (result.measured ? "" : " predicted");
    if (result.baseline_us > 0) line += ", " + fixed(result.baseline_us / result.time_us, 2) + " × " + result.baseline;
    line += result.from_store ? ", from the store"
                              : ", " + std::to_string(result.tried) + " tried, " + std::to_string(result.failures) +
                                    " failed, " + fixed(result.seconds, 1) + " s";
  }
  progress_.line(line);
}

void Reporter::warning(const std::string& text) { progress_.line("warning: " + text); }

bool Reporter::stop_requested() { return InterruptScope::requested(); }

void Reporter::draw(const std::string& what, double share_of_problem) {
  const double share = count_ == 0 ? 0 : (static_cast<double>(index_) + share_of_problem) / static_cast<double>(count_);
  progress_.bar(share, std::to_string(index_ + 1) + "/" + std::to_string(count_) + " " + name_ + ": " + what);
}

}  // namespace kiln::cli
