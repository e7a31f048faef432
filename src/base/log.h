// One spdlog logger per module, all writing to stderr: stdout is for tables and JSON.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include <spdlog/spdlog.h>

namespace kiln {

// The logger of `module` ("runtime", "cache", …); made on first use with the level last set.
std::shared_ptr<spdlog::logger> log(const std::string& module);

// Sets the level of every logger made so far and to come: trace, debug, info, warning, error, critical, off.
// Throws Error{invalid_argument} for another word.
void set_log_level(const std::string& level);

}  // namespace kiln
