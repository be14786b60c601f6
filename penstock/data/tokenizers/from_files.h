// The tokenizer that files hold, whichever kind wrote them.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// Restores the tokenizer whose files are in the directory, or that the file is.
/// Throws Error where there are none or they are damaged.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

}  // namespace penstock
