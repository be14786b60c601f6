// Reads one variant of a study's file: its recipe, with the changes that the study, the scale and
// the variant make to it. settle_variants.h checks the variants against each other.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/study/config/study_config.h"
#include "penstock/study/config/study_fields.h"

namespace penstock::study {

/// Throws Error with the place of train.seed in changes of recipes; `seeds` would override it.
void check_no_seed(const ConfigNode& changes);

/// The variant of the table `node`. Its published numbers go to study.comparison, its keys of
/// measurements to study.measurements.
/// @param beside  reads a file of the study's folder
/// Throws Error with file and line for an unknown or wrong key, a missing recipe, a wrong name, and
/// a published number that the study does not show.
Variant read_variant(const std::string& name, const ConfigNode& node, const StudyFields& fields,
                     const ScaleFields& scale, const TomlFiles& beside, StudyConfig& study);

}  // namespace penstock::study
