#include "tuner/cli/model_scores.h"

#include <algorithm>
#include <iostream>
#include <optional>

#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"

namespace kiln::cli {
namespace {

struct Overall {
  std::optional<double> spearman;
  std::optional<double> recall;
  std::optional<double> best_in_top;
  std::optional<double> first_choice;
  std::optional<double> worst_first_choice;
};

// The mean of what `get` gives, over the problems for which it gives anything.
template <class Get>
std::optional<double> mean_of(const std::vector<ProblemScores>& scores, Get get) {
  double sum = 0;
  int count = 0;
  for (const ProblemScores& each : scores) {
    if (const std::optional<double> value = get(each.scores)) {
      sum += *value;
      ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional<double>(sum / count);
}

std::optional<double> as_number(const std::optional<bool>& flag) {
  return flag ? std::optional<double>(*flag ? 1 : 0) : std::nullopt;
}

Overall summarise(const std::vector<ProblemScores>& scores) {
  Overall overall;
  overall.spearman = mean_of(scores, [](const tuner::RankScores& s) { return s.spearman; });
  overall.recall = mean_of(scores, [](const tuner::RankScores& s) { return s.recall; });
  overall.best_in_top = mean_of(scores, [](const tuner::RankScores& s) { return as_number(s.best_in_top); });
  overall.first_choice =
      mean_of(scores, [](const tuner::RankScores& s) { return std::optional<double>(s.first_choice); });
  for (const ProblemScores& each : scores) {
    overall.worst_first_choice = std::min(overall.worst_first_choice.value_or(1), each.scores.first_choice);
  }
  return overall;
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
std::string fixed_or_dash(const std::optional<double>& value) { return value ? fixed(*value, 3) : "-"; }
std::string percent_or_dash(const std::optional<double>& value) { return value ? percent(*value) : "-"; }

}  // namespace

const char* const kScoresHelp =
    "Per problem, over its measured configurations: Spearman, the rank correlation of predictions with times; top-16 "
    "recall, the share of the 16 fastest that are among the 16 predicted fastest, and whether the very fastest is "
    "(both "
    "only for more than 16); first choice, best time ÷ time of the one predicted fastest.";

std::vector<ProblemScores> score_problems(const OpSpec& op, const std::vector<tuner::MeasuredProblem>& problems,
                                          const std::vector<std::vector<double>>& predicted) {
  std::vector<ProblemScores> scores;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::vector<double> times;
    for (const tuner::MeasuredConfig& each : problems[i].configs) times.push_back(each.us);
    scores.push_back({short_text(op, problems[i].problem), tuner::rank_scores(predicted[i], times)});
  }
  return scores;
}

Json scores_to_json(const std::vector<ProblemScores>& scores) {
  Json rows = Json::array();
  for (const ProblemScores& each : scores) {
    rows.push_back({{"problem", each.problem},
                    {"measured", each.scores.count},
                    {"spearman", number_or_null(each.scores.spearman)},
                    {"recall16", number_or_null(each.scores.recall)},
                    {"best_in_top16", each.scores.best_in_top ? Json(*each.scores.best_in_top) : Json()},
                    {"first_choice", each.scores.first_choice}});
  }
  const Overall overall = summarise(scores);
  return {{"problems", rows},
          {"overall",
           {{"spearman", number_or_null(overall.spearman)},
            {"recall16", number_or_null(overall.recall)},
            {"best_in_top16", number_or_null(overall.best_in_top)},
            {"first_choice", number_or_null(overall.first_choice)},
            {"worst_first_choice", number_or_null(overall.worst_first_choice)}}}};
}

void print_scores(const std::string& heading, const std::vector<ProblemScores>& scores) {
  std::cout << heading << '\n';
  Table table({"problem", ">measured", ">Spearman", ">top-16 recall", ">best in top 16", ">first choice"});
  for (const ProblemScores& each : scores) {
    const std::optional<bool>& in_top = each.scores.best_in_top;
    const std::string best = !in_top ? "-" : *in_top ? "yes" : "no";
    table.add({each.problem, std::to_string(each.scores.count), fixed_or_dash(each.scores.spearman),
               percent_or_dash(each.scores.recall), best, fixed(each.scores.first_choice, 3)});
  }
  std::cout << table << "over all: " << overall_text(scores) << "\n\n";
}

std::string overall_text(const std::vector<ProblemScores>& scores) {
  const Overall overall = summarise(scores);
  return "Spearman " + fixed_or_dash(overall.spearman) + ", top-16 recall " + percent_or_dash(overall.recall) +
         ", best in top 16 " + percent_or_dash(overall.best_in_top) + ", first choice " +
         fixed_or_dash(overall.first_choice) + " of the best (worst " + fixed_or_dash(overall.worst_first_choice) + ")";
}

}  // namespace kiln::cli
