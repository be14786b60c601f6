#include "penstock/train/check_is_recipe.h"

#include "penstock/base/error.h"
#include "penstock/base/shell_quoted.h"

namespace penstock {

void check_is_recipe(const ConfigNode& node) {
  for (const char* of_studies : {"variants", "like"}) {
    const ConfigNode* found = node.find(of_studies);
    if (found && !found->file().empty())
      fail(found->origin(), ": ", of_studies,
           " is a key of studies, not of recipes; run a study with `penstock study ",
           shell_quoted(found->file()), "`");
  }
}

}  // namespace penstock
