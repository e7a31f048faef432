#include "tuner/suite.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "kernel/op_spec.h"
#include "kiln/error.h"
#include "runtime/dispatch.h"
#include "tuner/range.h"

namespace kiln::tuner {
namespace {

using Fields = std::map<std::string, std::string>;

[[noreturn]] void reject(const std::filesystem::path& file, const std::string& key, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, file.string() + ": " + key + ": " + what);
}

// parse_problem_text folds case, so fields of a table must meet those of a string.
std::string folded(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// A table's fields as texts. `weight`, where it is allowed, is taken out of them.
Fields read_table(const toml::table& table, const std::filesystem::path& file, const std::string& key, double* weight) {
  Fields fields;
  for (const auto& [name, node] : table) {
    const std::string place = key + "." + std::string(name.str());
    if (weight != nullptr && name.str() == "weight") {
      const auto number = node.value<double>();
      if (!number || !std::isfinite(*number) || *number <= 0) reject(file, place, "a number above 0 is expected");
      *weight = *number;
    } else if (const auto integer = node.value_exact<std::int64_t>()) {
      fields[folded(name.str())] = std::to_string(*integer);
    } else if (const auto text = node.value_exact<std::string>()) {
      fields[folded(name.str())] = *text;
    } else {
      reject(file, place, "an integer or a string is expected");
    }
  }
  return fields;
}

// One entry: a problem, or a range of problems.
struct Entry {
  ProblemText text;
  double weight = 1;
};

Entry read_entry(const toml::node& node, const std::string& key, const Fields& defaults, const OpSpec& op,
                 const std::filesystem::path& file) {
  Entry entry;
  entry.text.op = op.name;
  Fields& fields = entry.text.fields;
  if (const auto* table = node.as_table()) {
    fields = read_table(*table, file, key, &entry.weight);
  } else if (const auto text = node.value_exact<std::string>()) {
    for (const auto& [name, value] : parse_problem_text(op.name, *text).fields) fields[folded(name)] = value;
  } else {
    reject(file, key, "a string (\"m=64,n=64\") or a table ({ m = 64, n = 64 }) is expected");
  }
  fields.insert(defaults.begin(), defaults.end());
  return entry;
}

void add_entry(Suite& suite, const toml::node& node, const std::string& key, const Fields& defaults, const OpSpec& op,
               const std::filesystem::path& file) {
  try {
    const Entry entry = read_entry(node, key, defaults, op, file);
    if (std::optional<ProblemRange> range = read_range(op, entry.text)) {
      // That the fixed part is a problem at all is seen at one of its ends.
      with_extent(op, range->given, range->dim, range->last);
      suite.ranges.push_back({std::move(*range), entry.weight});
      return;
    }
    SuiteProblem problem{problem_from_text(op, entry.text), entry.weight};
    const auto same = std::find_if(suite.problems.begin(), suite.problems.end(),
                                   [&](const SuiteProblem& other) { return other.problem == problem.problem; });
    if (same != suite.problems.end()) {
      reject(file, key, "the same problem as problems[" + std::to_string(same->entry) + "]; remove one");
    }
    problem.entry = suite.problems.size() + suite.ranges.size();
    suite.problems.push_back(std::move(problem));
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.starts_with(file.string())) throw;
    reject(file, key, message);
  }
}

}  // namespace

Suite parse_suite(const std::string& text, const std::filesystem::path& file, const TemplateSet& templates) {
  toml::table root;
  try {
    root = toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    std::ostringstream place;
    place << "line " << error.source().begin.line;
    reject(file, place.str(), std::string(error.description()));
  }
  for (const auto& [key, node] : root) {
    const std::string_view name = key.str();
    if (name != "op" && name != "name" && name != "defaults" && name != "problems") {
      reject(file, std::string(name), "unknown key; a suite has op, name, defaults and problems");
    }
  }
  const auto op_name = root["op"].value_exact<std::string>();
  if (!op_name) reject(file, "op", "the name of an op is expected, such as \"gemm\"");
  const auto* const problems = root["problems"].as_array();
  if (problems == nullptr || problems->empty()) reject(file, "problems", "a list of at least one problem is expected");
  if (root.contains("name") && !root["name"].value_exact<std::string>()) reject(file, "name", "a string is expected");
  if (root.contains("defaults") && !root["defaults"].is_table()) {
    reject(file, "defaults", "a table of fields is expected, such as { dtype = \"bf16\" }");
  }

  Fields defaults;
  if (const auto* table = root["defaults"].as_table()) defaults = read_table(*table, file, "defaults", nullptr);
  const auto op = templates.find_op(*op_name);
  Suite suite{.name = root["name"].value_or(file.stem().string()), .op = *op_name, .problems = {}, .ranges = {}};
  for (std::size_t i = 0; i < problems->size(); ++i) {
    const std::string key = "problems[" + std::to_string(i) + "]";
    add_entry(suite, *problems->get(i), key, defaults, *op, file);
  }
  return suite;
}

Suite read_suite(const std::filesystem::path& file, const TemplateSet& templates) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw Error(ErrorCode::not_found, file.string() + ": there is no such suite, or it cannot be read");
  }
  return parse_suite(text.str(), file, templates);
}

}  // namespace kiln::tuner
