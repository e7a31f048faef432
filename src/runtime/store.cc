#include "runtime/store.h"

#include <array>

namespace kiln {
namespace {

constexpr std::array kFailureKinds{FailureKind::rejected, FailureKind::compile,      FailureKind::resources,
                                   FailureKind::launch,   FailureKind::wrong_result, FailureKind::timeout,
                                   FailureKind::crash,    FailureKind::out_of_memory};

}  // namespace

const char* to_string(Evidence evidence) noexcept {
  switch (evidence) {
    case Evidence::predicted:
      return "predicted";
    case Evidence::measured:
      return "measured";
  }
  return "unknown";
}

const char* to_string(FailureKind kind) noexcept {
  switch (kind) {
    case FailureKind::rejected:
      return "rejected";
    case FailureKind::compile:
      return "compile";
    case FailureKind::resources:
      return "resources";
    case FailureKind::launch:
      return "launch";
    case FailureKind::wrong_result:
      return "wrong_result";
    case FailureKind::timeout:
      return "timeout";
    case FailureKind::crash:
      return "crash";
    case FailureKind::out_of_memory:
      return "out_of_memory";
  }
  return "unknown";
}

std::optional<FailureKind> parse_failure_kind(std::string_view text) noexcept {
  for (const FailureKind kind : kFailureKinds) {
    if (text == to_string(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace kiln
