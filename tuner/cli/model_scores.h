// What `kiln model report` and `kiln model refit` share: scores of a model's predictions, problem by problem and over
// all, for people and programs. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "tuner/model/measured.h"
#include "tuner/model/rank.h"

namespace kiln::cli {

struct ProblemScores {
  std::string problem;  // as --problem reads it
  tuner::RankScores scores;
};

// What the scores mean, for --help.
extern const char* const kScoresHelp;

// Of a template's predictions over `problems`, in their order.
std::vector<ProblemScores> score_problems(const OpSpec& op, const std::vector<tuner::MeasuredProblem>& problems,
                                          const std::vector<std::vector<double>>& predicted);

// {"problems": …, "overall": {"spearman", "recall16", "best_in_top16", "first_choice", "worst_first_choice"}}: means
// over the problems that have the score.
Json scores_to_json(const std::vector<ProblemScores>& scores);
void print_scores(const std::string& heading, const std::vector<ProblemScores>& scores);
// "Spearman 0.91, top-16 recall 74%, …" over all.
std::string overall_text(const std::vector<ProblemScores>& scores);

}  // namespace kiln::cli
