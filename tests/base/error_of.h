// What a call refuses with, for the tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "penstock/base/error.h"

namespace penstock::testing {

/// What the call's Error says; fails the test where none is thrown.
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
