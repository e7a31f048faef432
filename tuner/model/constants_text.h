// The [cost.constants] of a manifest's text. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kernel/manifest.h"

namespace kiln::tuner {

// `text` with the values of its cost constants replaced, every other byte kept. `file` is for messages. Throws
// Error{invalid_manifest} when the text is no manifest, Error{invalid_argument} when its constants are not those named.
std::string with_constants(const std::string& text, const std::string& file,
                           const std::vector<CostConstant>& constants);

// The block as a manifest writes it, names padded to one width.
std::string constants_block(const std::vector<CostConstant>& constants);

}  // namespace kiln::tuner
