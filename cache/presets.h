// Results that ship with the library, so that a machine without a database of its own has good answers too: one
// presets/*.json per hardware class, in the form of an export. Thread-safe.
#pragma once

#include <vector>

#include "runtime/store.h"

namespace kiln::cache {

// Every decision of every embedded preset, its origin set to "preset". A preset that cannot be read is a bug of the
// build: it is logged and passed over.
std::vector<Decision> preset_decisions();

}  // namespace kiln::cache
