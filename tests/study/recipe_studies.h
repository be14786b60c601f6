// The studies in the folder recipes/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "penstock/study/config/study_config.h"

namespace penstock::study::testing {

/// The path of a file in recipes/, such as "remoe/table1".
inline std::string recipe_path(const std::string& name) {
  return std::string(PENSTOCK_SOURCE_DIR) + "/recipes/" + name + ".toml";
}

/// @param scale  "": the study's default
inline StudyConfig recipe_study(const std::string& name, const std::string& scale = "") {
  return read_study(recipe_path(name), {}, scale);
}

/// The variant of that name. Fails the test if there is none.
inline const Variant& variant_of(const StudyConfig& study, const std::string& name) {
  const auto found = std::ranges::find(study.variants, name, &Variant::name);
  EXPECT_NE(found, study.variants.end()) << study.path << " " << name;
  return *found;
}

}  // namespace penstock::study::testing
