// The JSON library, included one way everywhere.
#pragma once

#include <nlohmann/json.hpp>

namespace kiln {
using Json = nlohmann::json;
}  // namespace kiln
