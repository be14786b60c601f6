// The files embedded in the library: the studies of recipes/ that state figures in closed form, and
// the recipes that they name.
#pragma once

#include <span>

#include "penstock/base/embedded_file.h"

namespace penstock::study {

std::span<const EmbeddedFile> embedded_files();

}  // namespace penstock::study
