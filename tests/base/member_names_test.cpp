#include "penstock/base/member_names.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string named(const std::string& member) {
  return member == "key_bias" ? "--no-key-bias"
         : member == "keys"   ? "--keys"
         : member == "sha256" ? "--sha256"
                              : "";
}

TEST(WithMembers, PutsNamesInPlaceOfEachMemberThatHasOne) {
  EXPECT_EQ(with_members("options.keys is 3 (options.key_bias, options.keys)", named),
            "--keys is 3 (--no-key-bias, --keys)");
  EXPECT_EQ(with_members("above options.experts: options.keys.", named),
            "above options.experts: --keys.");
  EXPECT_EQ(with_members("options.sha256 'xyz'", named), "--sha256 'xyz'");
}

TEST(WithMembers, LeavesAllElse) {
  EXPECT_EQ(with_members("", named), "");
  EXPECT_EQ(with_members("keys, my_options.keys, options., options.3", named),
            "keys, my_options.keys, options., options.3");
  // Only a member's whole name is replaced.
  EXPECT_EQ(with_members("options.key", named), "options.key");
}

TEST(WithMembers, NamesMayBeOfAnyLength) {
  const std::string name(1000000, 'a');
  EXPECT_EQ(with_members("options." + name, named), "options." + name);
  EXPECT_EQ(with_model_keys("model." + name, named), "model." + name);
}

TEST(WithModelKeys, PutsNamesInPlaceOfWholeKeys) {
  const auto other = [](const std::string& key) -> std::string {
    return key == "model.heads" ? "heads of the file" : key == "model.router.k" ? "--k" : "";
  };
  EXPECT_EQ(with_model_keys("model.heads = 3; set model.d_model, not model.router.k.", other),
            "heads of the file = 3; set model.d_model, not --k.");
  EXPECT_EQ(with_model_keys("model.router.k.x, model.heads_2, a model, my_model.heads", other),
            "model.router.k.x, model.heads_2, a model, my_model.heads");
}

}  // namespace
}  // namespace penstock
