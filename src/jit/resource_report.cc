#include "jit/resource_report.h"

#include <cctype>
#include <charconv>
#include <optional>

namespace kiln::jit {
namespace {

// The integer that stands directly before `words` ("8 bytes spill stores"), or 0.
int number_before(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return 0;
  auto begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

// What stands between the quotes behind `words`, or empty.
std::optional<std::string> quoted_after(std::string_view line, std::string_view words) {
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const auto begin = at + words.size();
  const auto end = line.find('\'', begin);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(begin, end - begin));
}

// ptxas numbers what it has to say about performance, "(C7510) Potential Performance Loss: …", under "info" or
// "warning".
bool is_advisory(std::string_view line) {
  if (line.substr(0, 5) != "ptxas") return false;
  if (line.find("warning") != std::string_view::npos) return true;
  const auto at = line.find("(C");
  return at != std::string_view::npos && at + 2 < line.size() &&
         std::isdigit(static_cast<unsigned char>(line[at + 2])) != 0;
}

}  // namespace

PtxasReport read_ptxas_report(std::string_view log) {
  PtxasReport report;
  PtxasUsage* current = nullptr;
  while (!log.empty()) {
    const auto end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
    if (is_advisory(line)) report.advisories.emplace_back(line);
    if (const auto symbol = quoted_after(line, "Compiling entry function '")) current = &report.kernels[*symbol];
    if (current == nullptr) continue;
    current->stack_bytes += number_before(line, " bytes stack frame");
    current->spill_store_bytes += number_before(line, " bytes spill stores");
    current->spill_load_bytes += number_before(line, " bytes spill loads");
    if (line.find("Used ") != std::string_view::npos) current->registers = number_before(line, " registers");
  }
  return report;
}

}  // namespace kiln::jit
