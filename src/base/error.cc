#include "kiln/error.h"

namespace kiln {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_manifest:
      return "invalid_manifest";
    case ErrorCode::invalid_expression:
      return "invalid_expression";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::no_driver:
      return "no_driver";
    case ErrorCode::no_device:
      return "no_device";
    case ErrorCode::compile_failed:
      return "compile_failed";
    case ErrorCode::launch_failed:
      return "launch_failed";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io:
      return "io";
    case ErrorCode::cache:
      return "cache";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace kiln
