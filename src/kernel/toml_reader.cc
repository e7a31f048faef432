#include "kernel/toml_reader.h"

#include <algorithm>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {
namespace {

TomlPlace at(const TomlPlace& parent, const std::string& key, const toml::node* node) {
  TomlPlace place = parent;
  place.path = parent.path.empty() ? key : parent.path + "." + key;
  if (node != nullptr) place.line = node->source().begin.line;
  return place;
}

[[noreturn]] void type_error(const TomlPlace& place, const toml::node& node, const std::string& wanted) {
  manifest_error(place, "expected " + wanted + ", found " + toml_type_name(node));
}

const toml::array& as_array(const toml::node& node, const TomlPlace& place, const std::string& wanted) {
  if (!node.is_array()) type_error(place, node, "an array of " + wanted);
  return *node.as_array();
}

TomlPlace element(const TomlPlace& place, std::size_t index, const toml::node& node) {
  TomlPlace result = place;
  result.path += "[" + std::to_string(index) + "]";
  result.line = node.source().begin.line;
  return result;
}

}  // namespace

void manifest_error(const TomlPlace& place, const std::string& message) {
  std::string where = place.file;
  if (place.line != 0) where += ":" + std::to_string(place.line);
  throw Error(ErrorCode::invalid_manifest,
              where + ": " + (place.path.empty() ? std::string("top level") : place.path) + ": " + message);
}

std::string toml_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "the string \"" + node.as_string()->get() + "\"";
    case toml::node_type::integer:
      return "the integer " + std::to_string(node.as_integer()->get());
    case toml::node_type::floating_point:
      return "the number " + std::to_string(node.as_floating_point()->get());
    case toml::node_type::boolean:
      return node.as_boolean()->get() ? "the boolean true" : "the boolean false";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    default:
      return "a date or time";
  }
}

toml::table parse_toml(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    TomlPlace place{file, "TOML syntax", error.source().begin.line};
    manifest_error(place, std::string(error.description()));
  }
}

TomlPlace TomlTable::place_of(const std::string& key) const { return at(place_, key, table_->get(key)); }

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::pair<toml::source_position, std::string>> ordered;
  for (const auto& [key, node] : *table_) ordered.emplace_back(key.source().begin, std::string(key.str()));
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [position, name] : ordered) names.push_back(std::move(name));
  return names;
}

const toml::node* TomlTable::get_node(const std::string& key) {
  read_.insert(key);
  return table_->get(key);
}

std::optional<std::string> TomlTable::get_string(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_string()) type_error(place_of(key), *node, "a string");
  return node->as_string()->get();
}

std::string TomlTable::require_string(const std::string& key) {
  auto value = get_string(key);
  if (!value) manifest_error(place_of(key), "missing; give it a string");
  if (value->empty()) manifest_error(place_of(key), "is empty; give it a non-empty string");
  return *value;
}

std::optional<std::int64_t> TomlTable::get_integer(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_integer()) type_error(place_of(key), *node, "an integer");
  return node->as_integer()->get();
}

std::optional<double> TomlTable::get_number(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_number()) type_error(place_of(key), *node, "a number");
  return node->value<double>();
}

std::optional<bool> TomlTable::get_flag(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_boolean()) type_error(place_of(key), *node, "true or false");
  return node->as_boolean()->get();
}

std::optional<TomlTable> TomlTable::get_table(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_table()) type_error(place_of(key), *node, "a table");
  return TomlTable(*node->as_table(), place_of(key));
}

std::vector<TomlTable> TomlTable::get_tables(const std::string& key) {
  const toml::node* node = get_node(key);
  std::vector<TomlTable> tables;
  if (node == nullptr) return tables;
  const TomlPlace place = place_of(key);
  const toml::array& array = as_array(*node, place, "tables");
  for (std::size_t i = 0; i < array.size(); ++i) {
    const TomlPlace here = element(place, i, array[i]);
    if (!array[i].is_table()) type_error(here, array[i], "a table");
    tables.emplace_back(*array[i].as_table(), here);
  }
  return tables;
}

std::vector<std::string> TomlTable::get_strings(const std::string& key) {
  const toml::node* node = get_node(key);
  std::vector<std::string> strings;
  if (node == nullptr) return strings;
  const TomlPlace place = place_of(key);
  if (node->is_string()) return {node->as_string()->get()};
  const toml::array& array = as_array(*node, place, "strings");
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (!array[i].is_string()) type_error(element(place, i, array[i]), array[i], "a string");
    strings.push_back(array[i].as_string()->get());
  }
  return strings;
}

Expression read_expression(const toml::node& node, const TomlPlace& place) {
  if (node.is_integer()) return Expression(node.as_integer()->get());
  if (!node.is_string()) type_error(place, node, "an integer expression as a string");
  try {
    return Expression(node.as_string()->get());
  } catch (const Error& error) {
    manifest_error(place, error.what());
  }
}

std::optional<Expression> TomlTable::get_expression(const std::string& key) {
  const toml::node* node = get_node(key);
  if (node == nullptr) return std::nullopt;
  return read_expression(*node, place_of(key));
}

std::vector<Expression> TomlTable::get_expressions(const std::string& key) {
  const toml::node* node = get_node(key);
  std::vector<Expression> expressions;
  if (node == nullptr) return expressions;
  const TomlPlace place = place_of(key);
  if (!node->is_array()) return {read_expression(*node, place)};
  const toml::array& array = *node->as_array();
  for (std::size_t i = 0; i < array.size(); ++i) {
    expressions.push_back(read_expression(array[i], element(place, i, array[i])));
  }
  return expressions;
}

void TomlTable::refuse_unread() const {
  for (const std::string& key : keys()) {
    if (read_.count(key) != 0) continue;
    const std::vector<std::string> allowed(read_.begin(), read_.end());
    manifest_error(place_of(key),
                   "unknown key" + did_you_mean(key, allowed) + "; allowed here: " + join(allowed, ", "));
  }
}

}  // namespace kiln
