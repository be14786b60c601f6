// The studies embedded in the library, by their tables of papers in closed form.
#pragma once

#include <span>
#include <string>

#include "penstock/study/config/embedded_files.h"
#include "penstock/study/config/study_config.h"

namespace penstock::study {

/// The study of recipes/ whose file has a table [closed_form.NAME], at the scale "paper" where it
/// has one; it needs no file. Throws Error that lists the tables there are for another name, and
/// that names both files where two have it.
StudyConfig study_of_closed_form(const std::string& name,
                                 std::span<const EmbeddedFile> files = embedded_files());

}  // namespace penstock::study
