#include "tuner/cli/output.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>

#include "kiln/error.h"

namespace kiln::cli {

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    const bool right = heading.starts_with('>');
    right_.push_back(right);
    if (right) heading.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::ostream& operator<<(std::ostream& out, const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < table.headings_.size(); ++column) {
    std::size_t width = display_width(table.headings_[column]);
    for (const auto& row : table.rows_) width = std::max(width, display_width(row[column]));
    widths.push_back(width);
  }
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - display_width(cells[column]), ' ');
      if (column > 0) line += "  ";
      line += table.right_[column] ? padding + cells[column] : cells[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  print(table.headings_);
  for (const auto& row : table.rows_) print(row);
  return out;
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

std::string microseconds(double us) { return fixed(us, us < 10 ? 2 : us < 1000 ? 1 : 0); }

std::string percent(double ratio) { return fixed(ratio * 100, ratio < 0.1 ? 1 : 0) + "%"; }

std::string signed_percent(double ratio) { return (ratio < 0 ? "" : "+") + fixed(ratio * 100, 1) + "%"; }

std::string byte_size(std::int64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fixed(value, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string age(std::int64_t unix_time) {
  if (unix_time == 0) return "at no known time";
  const std::int64_t seconds = std::max<std::int64_t>(0, unix_now() - unix_time);
  if (seconds < 60) return std::to_string(seconds) + " s ago";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min ago";
  if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + " h ago";
  return std::to_string(seconds / 86400) + " days ago";
}

std::string utc_time(std::int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> buffer{};
  std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return buffer.data();
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void print_json(const Json& value) { std::cout << value.dump(2, ' ', false, Json::error_handler_t::replace) << '\n'; }

void write_json(const std::string& file, const Json& value) {
  const std::string partial = file + ".partial";
  std::ofstream stream(partial, std::ios::trunc);
  stream << value.dump(1) << '\n';
  stream.close();
  if (!stream || std::rename(partial.c_str(), file.c_str()) != 0) {
    throw Error(ErrorCode::io, file + ": cannot be written; check that its folder exists and is yours");
  }
}

}  // namespace kiln::cli
