// The progress line on a terminal of a given width, and its shortened forms without a terminal.
#include "penstock/base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace penstock {
namespace {

TEST(Progress, IsCutByWholeFieldsFromTheEnd) {
  const std::string text = "step 3/20  loss 5.1  12% of peak  9s left";
  EXPECT_EQ(cut_to_width(text, text.size()), text);
  EXPECT_EQ(cut_to_width(text, text.size() - 1), "step 3/20  loss 5.1  12% of peak");
  EXPECT_EQ(cut_to_width(text, 19), "step 3/20  loss 5.1");
  EXPECT_EQ(cut_to_width(text, 18), "step 3/20");
  EXPECT_EQ(cut_to_width(text, 6), "step 3");
  EXPECT_EQ(cut_to_width(text, 0), "");
  EXPECT_EQ(cut_to_width("  long", 3), "  l");
  EXPECT_EQ(cut_to_width(" 34%  loss 5.1", 9), " 34%");  // "{:3.0f}%" begins with a blank
}

TEST(Progress, CountsCharactersAndKeepsThemWhole) {
  EXPECT_EQ(cut_to_width("λλ  ββ", 6), "λλ  ββ");
  EXPECT_EQ(cut_to_width("λλ  ββ", 5), "λλ");
  EXPECT_EQ(cut_to_width("λλ", 1), "λ");
}

TEST(Progress, GivesUpFieldsByRank) {
  const std::vector<ProgressField> fields = {
      {.text = "step 3/20"},
      {.text = "2.1 bits", .rank = 9},
      {.text = "aux a 1 b 2", .rank = 2, .shorter = "aux 3", .shorter_rank = 6},
      {.text = "grad 4", .rank = 3},
      {.text = "λ 5", .rank = 3},
      {.text = "9s left"}};
  const std::string whole = "step 3/20  2.1 bits  aux a 1 b 2  grad 4  λ 5  9s left";
  EXPECT_EQ(fitted_line(fields, whole.size() - 1), whole);  // λ is one character of two bytes
  EXPECT_EQ(fitted_line(fields, whole.size() - 2), "step 3/20  aux a 1 b 2  grad 4  λ 5  9s left");
  EXPECT_EQ(fitted_line(fields, 43), "step 3/20  aux 3  grad 4  λ 5  9s left");
  EXPECT_EQ(fitted_line(fields, 37), "step 3/20  aux 3  grad 4  9s left");
  EXPECT_EQ(fitted_line(fields, 32), "step 3/20  aux 3  9s left");
  EXPECT_EQ(fitted_line(fields, 24), "step 3/20  9s left");
  EXPECT_EQ(fitted_line(fields, 0), "step 3/20  9s left");
}

/// What a terminal with `columns` columns receives when `text` is shown.
std::string shown_on_terminal(unsigned short columns, const std::string& text,
                              std::size_t room = 0) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "";
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  std::string out(4096, '\0');
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(::ptsname(terminal), "w"),
                                                               std::fclose);
    EXPECT_NE(file, nullptr);
    ProgressLine line(file.get());
    if (room > 0) {
      EXPECT_EQ(line.columns(), room);
    }
    line.show(text);
    const auto got = ::read(terminal, out.data(), out.size());
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  ::close(terminal);
  return out;
}

TEST(Progress, StaysWithinTheTerminal) {
  const std::string text = "step 3/20  loss 5.1  12% of peak  9s left";
  const std::string wide = shown_on_terminal(80, text, 79);
  if (wide.empty()) GTEST_SKIP() << "this system has no pseudo-terminal";
  EXPECT_EQ(wide, "\r\033[K" + text);
  EXPECT_EQ(shown_on_terminal(20, text), "\r\033[Kstep 3/20  loss 5.1");
  EXPECT_EQ(shown_on_terminal(19, text), "\r\033[Kstep 3/20");
  // The terminal does not report its width.
  EXPECT_EQ(shown_on_terminal(0, text), "\r\033[K" + text);
}

TEST(Progress, ALineThatCannotBeWrittenIsNoError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  if (!full) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_NO_THROW(print_line(full, "lost"));
  EXPECT_NO_THROW(ProgressLine(full).show("lost"));
  EXPECT_TRUE(std::ferror(full));
  std::fclose(full);
  EXPECT_NO_THROW(print_line(nullptr, "to nobody"));
}

TEST(Progress, IsNotCutElsewhere) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const std::string text(300, 'x');
  ProgressLine(file).show(text);
  std::rewind(file);
  std::string read(400, '\0');
  read.resize(std::fread(read.data(), 1, read.size(), file));
  std::fclose(file);
  EXPECT_EQ(read, text + "\n");
}

}  // namespace
}  // namespace penstock
