// `penstock` alone on a terminal: what is in the current folder, and what one can do with it.
#pragma once

#include <string>

namespace penstock {

/// Recipes, studies, corpora, runs and models of the folder and of the two levels below, and the
/// commands that go on from there. Reads names and beginnings of files; opens no model.
std::string overview(const std::string& folder);

}  // namespace penstock
