// What the command line prints for people: aligned tables and numbers of a readable length. All of it goes to stdout;
// logs go to stderr. Single-threaded.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/json.h"

namespace kiln::cli {

// Columns as wide as their widest cell; those whose heading begins with '>' are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  // REQUIRES: as many cells as headings.
  void add(std::vector<std::string> cells);
  bool empty() const noexcept { return rows_.empty(); }

 private:
  friend std::ostream& operator<<(std::ostream& out, const Table& table);
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};
std::ostream& operator<<(std::ostream& out, const Table& table);

// Characters a terminal shows for UTF-8 text (no wide or combining ones are used here).
std::size_t display_width(const std::string& text);

// "12.3": `digits` after the point.
std::string fixed(double value, int digits);
// Three significant digits or better: "9.87", "98.7", "987".
std::string microseconds(double us);
// "27%"; "+3.1%" with signed_percent.
std::string percent(double ratio);
std::string signed_percent(double ratio);
// "60.0 MiB"
std::string byte_size(std::int64_t bytes);
// "3 min ago", from seconds since the epoch; "at no known time" for 0.
std::string age(std::int64_t unix_time);
// ISO 8601 in UTC: "2026-12-01T03:04:05Z".
std::string utc_time(std::int64_t unix_time);
std::int64_t unix_now();

// Indented, one object or array, a newline at the end.
void print_json(const Json& value);
// Into place in one step, so that a reader never meets half a file. Throws Error{io} naming the file.
void write_json(const std::string& file, const Json& value);

}  // namespace kiln::cli
