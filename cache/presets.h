// Results that ship with the library, so that a machine without a database of its own has good answers too: one
// presets/*.json per hardware class, in the form of an export. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runtime/store.h"

namespace kiln::cache {

// Those of one op, of which only the problems are parsed yet: what a query costs depends on no other op's presets.
std::vector<Preset> presets_of(const std::string& op);

// Every decision of every preset, its origin set to "preset". One that cannot be read is a bug of the build: it is
// logged and passed over.
std::vector<Decision> preset_decisions();

}  // namespace kiln::cache
