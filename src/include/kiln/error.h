// The one exception type of Kiln. Thrown for what a caller cannot expect: bad input, a missing driver, a failed CUDA
// call. Expected outcomes (a cache miss, a candidate that does not compile) are values, never an Error.
// Immutable once built; safe to share between threads.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kiln {

enum class ErrorCode {
  invalid_argument = 1,  // a value the caller passed; the message says what is allowed
  invalid_manifest,      // a template's manifest; the message names file, table and key
  invalid_expression,    // an integer expression that does not parse or evaluate
  not_found,             // a template, op, file or row that does not exist
  unsupported,           // well-formed, but not for this device, dtype, or version
  no_driver,             // libcuda cannot be loaded, or is too old
  no_device,             // no such GPU
  compile_failed,        // NVRTC refused the source; the message carries the whole log and the configuration
  launch_failed,         // a CUDA call failed
  out_of_memory,
  io,           // a file or process operation
  cache,        // the store is unusable for what was asked (never thrown by a launch)
  interrupted,  // stopped on request; work done so far is kept
  internal,     // a bug in Kiln
};

// The code's name as written above, e.g. "no_driver". Never fails.
const char* to_string(ErrorCode code) noexcept;

// Where in Kiln's source an error was raised. (SourcePlace, but for compilers that lack it.)
struct SourcePlace {
  const char* file = "";
  int line = 0;
  const char* function = "";
  static constexpr SourcePlace current(const char* at_file = __builtin_FILE(), int at_line = __builtin_LINE(),
                                       const char* in_function = __builtin_FUNCTION()) noexcept {
    return {at_file, at_line, in_function};
  }
};

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorCode code, const std::string& message, SourcePlace where = SourcePlace::current())
      : std::runtime_error(message), code_(code), where_(where) {}

  // For a failed native call: `call` is its name ("cuLaunchKernelEx"), `native_code` what it returned.
  Error(ErrorCode code, const std::string& message, std::string call, int native_code,
        SourcePlace where = SourcePlace::current())
      : std::runtime_error(message), code_(code), native_code_(native_code), call_(std::move(call)), where_(where) {}

  ErrorCode code() const noexcept { return code_; }
  // 0 when no native call was involved.
  int native_code() const noexcept { return native_code_; }
  // Empty when no native call was involved.
  const std::string& call() const noexcept { return call_; }
  const SourcePlace& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  int native_code_ = 0;
  std::string call_;
  SourcePlace where_;
};

}  // namespace kiln
