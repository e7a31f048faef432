// Reading TOML with messages a person can act on: every error is an Error{invalid_manifest} of the form
// "file:line: table.key: what was wrong, the value met, what is allowed". A table remembers which keys were read, so
// that a misspelt key is an error and not a silence. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "base/expression.h"

namespace kiln {

// Where a value stands.
struct TomlPlace {
  std::string file;
  std::string path;  // "launch[0].grid"
  unsigned line = 0;
};

[[noreturn]] void manifest_error(const TomlPlace& place, const std::string& message);

// "a string", "an integer", …
std::string toml_type_name(const toml::node& node);

// Parses a whole file. Syntax errors come as manifest errors.
toml::table parse_toml(const std::string& text, const std::string& file);

class TomlTable {
 public:
  TomlTable(const toml::table& table, TomlPlace place) : table_(&table), place_(std::move(place)) {}

  const TomlPlace& place() const noexcept { return place_; }
  TomlPlace place_of(const std::string& key) const;
  bool has(const std::string& key) const { return table_->contains(key); }
  // The keys in the order written.
  std::vector<std::string> keys() const;

  // Each marks the key as read. `get_` forms answer empty for a missing key; `require_` forms make that an error.
  const toml::node* get_node(const std::string& key);
  std::optional<std::string> get_string(const std::string& key);
  std::string require_string(const std::string& key);
  std::optional<std::int64_t> get_integer(const std::string& key);
  std::optional<double> get_number(const std::string& key);
  std::optional<bool> get_flag(const std::string& key);
  std::optional<TomlTable> get_table(const std::string& key);
  std::vector<TomlTable> get_tables(const std::string& key);
  std::vector<std::string> get_strings(const std::string& key);
  // An expression given as a string or an integer.
  std::optional<Expression> get_expression(const std::string& key);
  std::vector<Expression> get_expressions(const std::string& key);

  // Error for any key that nothing read, naming the keys that are allowed here.
  void refuse_unread() const;

 private:
  const toml::table* table_;
  TomlPlace place_;
  std::set<std::string> read_;
};

// An expression from a string or integer node.
Expression read_expression(const toml::node& node, const TomlPlace& place);

}  // namespace kiln
