// The pieces of reading an op that reading a manifest needs too. All throw Error{invalid_manifest}.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernel/manifest.h"
#include "kernel/toml_reader.h"

namespace kiln {

DType read_dtype(const std::string& name, const TomlPlace& place);
ScalarType read_scalar_type(const std::string& name, const TomlPlace& place);
// The `tolerance` table of a [check].
std::map<DType, double> read_tolerance(TomlTable& check);
// A table of "expression" = "reason".
std::vector<Requirement> read_requirements(TomlTable& parent, const std::string& key);
// Error unless `name` can stand in an expression and in C++.
void require_identifier(const std::string& name, const TomlPlace& place);
OpSpec read_op_table(TomlTable& table);

}  // namespace kiln
