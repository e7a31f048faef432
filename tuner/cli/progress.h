// Progress of a long run: on a terminal one line at the bottom that is drawn again and again, elsewhere nothing but the
// plain lines. All of it goes to stderr, so that stdout holds results alone. Single-threaded.
#pragma once

#include <chrono>
#include <string>

namespace kiln::cli {

class Progress {
 public:
  enum class Style { automatic, plain };
  explicit Progress(Style style = Style::automatic);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A line that stays.
  void line(const std::string& text);
  // The run's bar: `share` of it done (0 … 1), and what is going on. Drawn at most some ten times a second.
  void bar(double share, const std::string& text);
  bool is_terminal() const noexcept { return terminal_; }

 private:
  void clear();

  bool terminal_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_draw_;
};

}  // namespace kiln::cli
