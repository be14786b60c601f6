#include "penstock/base/member_names.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::string named(const std::string& member) {
  return member == "key_bias" ? "--no-key-bias" : member == "keys" ? "--keys" : "";
}

TEST(WithMembers, PutsNamesInPlaceOfEachMemberThatHasOne) {
  EXPECT_EQ(with_members("options.keys is 3 (options.key_bias, options.keys)", named),
            "--keys is 3 (--no-key-bias, --keys)");
  EXPECT_EQ(with_members("above options.experts: options.keys.", named),
            "above options.experts: --keys.");
}

TEST(WithMembers, LeavesAllElse) {
  EXPECT_EQ(with_members("", named), "");
  EXPECT_EQ(with_members("keys, my_options.keys, options., options.3", named),
            "keys, my_options.keys, options., options.3");
  // Only a member's whole name is replaced.
  EXPECT_EQ(with_members("options.key", named), "options.key");
}

}  // namespace
}  // namespace penstock
