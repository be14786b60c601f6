// Finds a study embedded in the library by the name of its table in closed form.
#pragma once

#include <span>
#include <string>

#include "penstock/study/config/embedded_files.h"
#include "penstock/study/config/study_config.h"

namespace penstock::study {

/// The study of recipes/ whose file has a table [closed_form.NAME], at the scale "paper" if it has
/// one. It needs no file on disk. Throws Error that lists the existing tables for an unknown name.
/// Throws Error that names both files if two studies have the table.
StudyConfig study_of_closed_form(const std::string& name,
                                 std::span<const EmbeddedFile> files = embedded_files());

}  // namespace penstock::study
