#include "base/log.h"

#include <atomic>
#include <mutex>

#include <spdlog/sinks/stdout_color_sinks.h>

#include "kiln/error.h"

namespace kiln {
namespace {

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::atomic<int>& current_level() {
  static std::atomic<int> level{static_cast<int>(spdlog::level::warn)};
  return level;
}

// The application may use spdlog itself: our loggers live under their own prefix in its registry.
std::string registry_name(const std::string& module) { return "kiln." + module; }

}  // namespace

std::shared_ptr<spdlog::logger> log(const std::string& module) {
  const std::string name = registry_name(module);
  if (auto found = spdlog::get(name)) return found;
  const std::lock_guard lock(registry_mutex());
  if (auto found = spdlog::get(name)) return found;
  auto logger = spdlog::stderr_color_mt(name);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %n: %v");
  logger->set_level(static_cast<spdlog::level::level_enum>(current_level().load()));
  return logger;
}

void set_log_level(const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    throw Error(ErrorCode::invalid_argument,
                "log level '" + level + "' is not one of trace, debug, info, warning, error, critical, off");
  }
  const std::lock_guard lock(registry_mutex());
  current_level() = static_cast<int>(parsed);
  spdlog::apply_all([parsed](const std::shared_ptr<spdlog::logger>& logger) {
    if (logger->name().rfind("kiln.", 0) == 0) logger->set_level(parsed);
  });
}

}  // namespace kiln
