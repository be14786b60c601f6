#include "penstock/data/classification/checks.h"

#include <string_view>

#include "penstock/base/error.h"
#include "penstock/data/text_files.h"
#include "penstock/data/utf8.h"

namespace penstock::classification {

std::string read_single_file(const std::string& path) {
  std::string out;
  int files = 0;
  read_text_file(path, [&](const std::string&, std::string_view content) {
    ++files;
    out = content;
  });
  PENSTOCK_CHECK(files == 1, "'", path, "' is an archive of ", files,
                 " files; unpack it and name the one to read");
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (out.starts_with(byte_order_mark)) out.erase(0, byte_order_mark.size());
  return out;
}

void check_text(std::string_view text, const std::string& file, std::size_t line) {
  const auto offset = find_invalid_utf8(text);
  PENSTOCK_CHECK(offset == std::string_view::npos, file, ":", line,
                 ": the text is not UTF-8 (byte ", offset,
                 " of it); convert the file first, for example with iconv");
  PENSTOCK_CHECK(text.find_first_not_of(" \t\r\n") != std::string_view::npos, file, ":", line,
                 ": the text is empty");
}

int parse_label(std::string_view text, int classes, const std::string& file, std::size_t line) {
  const bool good = text.size() == 1 && text[0] >= '0' && text[0] < '0' + classes;
  PENSTOCK_CHECK(good, file, ":", line, ": the label '", text.substr(0, 40),
                 "' is not one of 0 to ", classes - 1);
  return text[0] - '0';
}

}  // namespace penstock::classification
