// Chooses the variants of a study among those of its file, and checks the names by which variants
// refer to each other. read_variant.h reads each of them.
#pragma once

#include "penstock/study/config/study_config.h"
#include "penstock/study/config/study_fields.h"

namespace penstock::study {

/// Keeps the variants that `only` names. Fills in the reference and the model that each variant
/// begins with.
/// Throws Error with file, line and key for a name that is no variant of the study, and for a
/// variant that needs a variant which itself needs another.
/// @param study  has all variants of the file
void settle_variants(StudyConfig& study, const StudyFields& fields, const ScaleFields& scale);

}  // namespace penstock::study
