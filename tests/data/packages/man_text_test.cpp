#include "penstock/data/packages/man_text.h"

#include <gtest/gtest.h>

#include "penstock/data/packages/roff_escapes.h"

namespace penstock {
namespace {

TEST(RoffEscapes, ReadAsTheyPrint) {
  EXPECT_EQ(roff_text(R"(plain text)"), "plain text");
  EXPECT_EQ(roff_text(R"(\fB\-\-all\fP, \f[I]x\f[]\/, \f(CWy\fR)"), "--all, x, y");
  EXPECT_EQ(roff_text(R"(it\(aqs \(lqso\(rq \[em] \(co \[u00E9]\[u4E2D])"), "it's “so” — © é中");
  EXPECT_EQ(roff_text(R"(a\ b\~c\0d\&.e\|f\^g\%h\:i)"), "a b c d.efghi");
  EXPECT_EQ(roff_text(R"(back\e\\slash \(rs)"), "back\\\\slash \\");
  EXPECT_EQ(roff_text(R"(\s-1SMALL\s0 \s+2big\s[0] \h'2n'far\v'1' \*(lqx\*Q)"), "SMALL big far x");
  EXPECT_EQ(roff_text(R"(kept \" a comment)"), "kept ");
  EXPECT_EQ(roff_text(R"(\(zz\[nothing]\[uD800]unknown)"), "unknown");
  EXPECT_EQ(roff_text("ends in \\"), "ends in ");
}

TEST(ManText, MacrosBecomeHeadingsParagraphsAndText) {
  EXPECT_EQ(
      man_text(R"(.\" a comment
'\" another
.TH LS 1 "2022" "GNU" "User Commands"
.SH NAME
ls \- list directory contents
.SH "SEE ALSO"
.PP
First
line.
.PP
.B bold
and
.BR ls (1),
.I "two words"
.TP
\fB\-a\fR
all of them
.IP \(bu 4
an item
.TS
l l.
table	cells
.TE
.de XX
never printed
..
.nf
  example \e
.fi
.UR http://example.org/
the place
.UE
.RI [ optional "" ]
.BI "quote""d" \ x
)"),
      "NAME\n\nls - list directory contents\n\nSEE ALSO\n\nFirst\nline.\n\nbold\nand\nls(1),\n"
      "two words\n\n-a\nall of them\n\n•\nan item\n  example \\\nhttp://example.org/\nthe "
      "place\n[optional]\nquote\"d x\n");
}

TEST(ManText, WhatIsNoPageOfManIsEmpty) {
  EXPECT_EQ(man_text(".so man1/other.1\n"), "");
  EXPECT_EQ(man_text(".Dd July 1\n.Dt X 1\n.Nm x\ntext\n"), "");
  EXPECT_EQ(man_text(""), "");
  EXPECT_EQ(man_text("no end of line"), "no end of line\n");
}

}  // namespace
}  // namespace penstock
