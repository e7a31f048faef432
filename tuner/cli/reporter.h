// What a tuning run says of itself: a bar on a terminal, a line for each problem that ends. Single-threaded.
#pragma once

#include <string>

#include "kiln/tuner.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/session.h"

namespace kiln::cli {

class Reporter : public TuneObserver {
 public:
  enum class Detail { problems, candidates };
  Reporter(Progress& progress, Session& session, Detail detail)
      : progress_(progress), session_(session), detail_(detail) {}

  void problem_started(std::size_t index, std::size_t count, const Problem& problem) override;
  void progress(const std::string& stage, std::size_t done, std::size_t total) override;
  void trial_ended(const std::string& candidate, double us, const std::string& failure) override;
  void problem_ended(std::size_t index, const TuneResult& result) override;
  void warning(const std::string& text) override;
  bool stop_requested() override;

 private:
  void draw(const std::string& what, double share_of_problem);

  Progress& progress_;
  Session& session_;
  Detail detail_;
  std::size_t index_ = 0;
  std::size_t count_ = 0;
  std::string name_;
};

}  // namespace kiln::cli
