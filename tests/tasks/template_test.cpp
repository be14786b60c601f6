// The small language of task files: the values of templates and filters, and their errors.
#include "penstock/tasks/template.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

const Row kRow = Row::parse(R"({
  "question": "  Why? ", "label": "2", "yes": true,
  "choices": {"text": ["a b", "c"], "label": ["A", "B"]}, "key": "B",
  "list": [{"text": "x"}, {"text": "y"}], "sentence": "Ann saw _ near the _ sea", "accent": "éCOLE"
})");

std::string text(const std::string& source) { return Template(source, "t.toml:1").text(kRow); }
Row value(const std::string& source) { return Template(source, "t.toml:1").value(kRow); }

TEST(Template, FillsTextFromFieldsAndFilters) {
  EXPECT_EQ(text("Q:{{question}}!\n{{ label }}"), "Q:  Why? !\n2");
  EXPECT_EQ(text("{{question | strip}}|{{question|lstrip}}"), "Why?|Why? ");
  EXPECT_EQ(text("{{choices.text.1}}{{list.0.text}}"), "cx");
  EXPECT_EQ(text("{{sentence | before('_')}}|{{sentence | after('_')}}"),
            "Ann saw | near the _ sea");
  EXPECT_EQ(text("{{sentence | before_last('_')}}|{{sentence | after_last(' ')}}"),
            "Ann saw _ near the |sea");
  EXPECT_EQ(
      text("{{sentence | after_up_to(' ', 2)}}{{sentence | after_up_to('zz', 2) | drop_last(20)}}"),
      "_ near the _ seaAnn ");
  EXPECT_EQ(text("{{accent | capitalize}}{{accent | uncapitalize}}"), "ÉcoleéCOLE");
  EXPECT_EQ(text("no braces } { here"), "no braces } { here");
  EXPECT_EQ(text("{{sentence | replace(\"_\", \"|)\") | drop_last(4)}}"), "Ann saw |) near the |)");
}

TEST(Template, CutsWhatMarksEncloseOnOneLineAlone) {
  const auto cut = [](const std::string& source) {
    return Template("{{t | cut('[', ']')}}", "t").text(Row{{"t", source}});
  };
  EXPECT_EQ(cut("a [b] c [d"), "a  c [d");
  EXPECT_EQ(cut("[a[b]c]"), "c]");
  EXPECT_EQ(cut("[a\nb] [c]"), "[a\nb] ");
}

TEST(Template, GivesValuesOfOneExpressionAndListsFilteredOneByOne) {
  EXPECT_EQ(value("{{choices.text | prepend(' ')}}"), Row::array({" a b", " c"}));
  EXPECT_EQ(value("{{list.text}}"), Row::array({"x", "y"}));
  EXPECT_EQ(value("{{key | index(choices.label)}}"), 1);
  EXPECT_EQ(value("{{key | index('ABCD')}}"), 1);
  EXPECT_EQ(value("{{label | minus(1)}}"), 1);
  EXPECT_EQ(value("{{yes | int}}"), 1);
  EXPECT_EQ(value("{{choices.text | count | is(2)}}"), true);
  EXPECT_EQ(value("{{key | map('A', 'no', 'B', 'yes')}}"), "yes");
  EXPECT_EQ(value("{{sentence | starts_with('Ann')}}"), true);
  EXPECT_EQ(value("3"), "3");
}

TEST(Template, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(
      error_of([] { text("{{questoin}}"); }),
      "t.toml:1: there is no field 'questoin'; there are: question, label, yes, choices, key, "
      "list, sentence, accent");
  EXPECT_EQ(error_of([] { text("{{question"); }), "t.toml:1: '{{' is not closed by '}}'");
  EXPECT_EQ(error_of([] { text("{{question | stripp}}"); }),
            "t.toml:1: there is no filter 'stripp'; did you mean 'strip'?");
  EXPECT_EQ(error_of([] { text("{{question | before}}"); }),
            "t.toml:1: the filter 'before' has 0 arguments: before(MARK): what stands before the "
            "first mark, which there must be");
  EXPECT_EQ(error_of([] { text("{{question | before('_')}}"); }),
            "t.toml:1: there is no '_' in '  Why? '");
  for (const char* filter :
       {"cut('', '')", "cut('', ']')", "cut('[', '')", "before('')", "after('')", "before_last('')",
        "after_last('')", "after_up_to('', 2)"})
    EXPECT_EQ(error_of([&] { text(concat("{{question | ", filter, "}}")); }),
              "t.toml:1: a mark is empty; give the text to look for")
        << filter;
  EXPECT_EQ(error_of([] { text("{{choices.text}}"); }),
            "t.toml:1: a text is wanted, and the value is [\"a b\",\"c\"]");
  EXPECT_EQ(error_of([] { text("{{choices.text.7}}"); }), "t.toml:1: place 7 of a list of 2");
  EXPECT_EQ(error_of([] { value("{{key | index('XY')}}"); }), "t.toml:1: \"B\" is none of \"XY\"");
  EXPECT_EQ(error_of([] { text("{{ | strip}}"); }),
            "t.toml:1: '{{ | strip}}' does not begin with a field, as {{question | strip}} does");
}

}  // namespace
}  // namespace penstock::tasks
