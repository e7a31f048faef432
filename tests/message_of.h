// What a call throws, for tests of messages. Thread-safe (no state).
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln {

// The message of the Error that `call` throws. A failure of the test when it throws none, or one of another code.
inline std::string message_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STREQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown where " << to_string(code) << " should be";
  return {};
}

}  // namespace kiln
