// A small dense model, a text, and upcycled models made from them in tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/tiny_parent.h"

namespace penstock::testing {

/// A parent model, a text, and a folder for results.
class UpcycleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_parent(path("dense"), tiny_config());
    write_text(path("text"));
  }
  std::string path(const std::string& name) const { return temp_.path(name); }
  UpcycleOptions options(const std::string& method) const {
    UpcycleOptions out{.method = method};
    if (method == "switch") out.k = 1;
    if (method.starts_with("router-upcycling")) out.calibration = path("text");
    return out;
  }
  /// Upcycles `dense` into the folder `out` and loads the result.
  std::shared_ptr<LanguageModel> make(const UpcycleOptions& how, const std::string& out = "out") {
    report_ = upcycle(*open_model_source(path("dense")), how, real_file_system(), path(out));
    return load_model(path(out));
  }

  TempDirectory temp_;
  UpcycleReport report_;
};

inline const std::vector<std::string> kUpcycleMethods = {
    "vanilla", "switch", "locmoe",     "mlp", "router-upcycling", "router-upcycling-max",
    "remoe",   "xmoe",   "hyperrouter"};

}  // namespace penstock::testing
