// The message of a call's Error, for the tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "penstock/base/error.h"

namespace penstock::testing {

/// The message of the call's Error. Fails the test if no Error is thrown.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace penstock::testing
