// Restores a tokenizer of any kind from its files.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// Restores the tokenizer from a directory with its files, or from its single file.
/// Throws Error if there are no such files or they are damaged.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path);

}  // namespace penstock
