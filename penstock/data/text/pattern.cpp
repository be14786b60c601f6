#include "penstock/data/text/pattern.h"

#include <algorithm>
#include <ctime>

#include "penstock/base/error.h"
#include "penstock/data/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace penstock {
namespace {

constexpr std::size_t kLongestPattern = 1 << 14;
// The limit on backtracking steps of one match. A long run of spaces costs a few steps a space.
constexpr std::size_t kMatchSteps = 1'000'000, kMatchStepsPerByte = 8;
constexpr std::uint32_t kMatchHeapKib = 64 << 10;
constexpr int kMatchesPerClock = 64;
constexpr double kSecondsPerText = 5;  // limit on processor time, to which this is added:
constexpr double kSecondsPerByte = 20e-6;

std::string pcre2_message(int code) {
  unsigned char buffer[200];
  const int length = pcre2_get_error_message(code, buffer, sizeof buffer);
  return length > 0 ? std::string(reinterpret_cast<char*>(buffer), static_cast<std::size_t>(length))
                    : std::to_string(code);
}

/// The processor time of this thread. It does not depend on other programs of the machine.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

struct Pattern::Code {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  };
  std::unique_ptr<pcre2_code, Free> code;
};

Pattern::Pattern(std::string pattern, bool literal) : text_(std::move(pattern)) {
  PENSTOCK_CHECK(text_.size() <= kLongestPattern, "a pattern of ", text_.size(),
                 " bytes is longer than ", kLongestPattern);
  const auto bad = find_invalid_utf8(text_);
  PENSTOCK_CHECK(bad == std::string_view::npos, "the pattern is not UTF-8 at byte ", bad);
  // Anchored: for_each_match() moves from position to position itself, to measure the time. A
  // pattern may not change the Unicode mode or the limits, nor match single bytes (\C).
  std::uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C;
  options |= literal ? PCRE2_LITERAL : PCRE2_UCP;
  if (literal) options &= ~static_cast<std::uint32_t>(PCRE2_NEVER_BACKSLASH_C);
  std::unique_ptr<pcre2_compile_context, Code::Free> context(pcre2_compile_context_create(nullptr));
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto made = std::make_unique<Code>();
  made->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), options,
                                 &error, &offset, context.get()));
  PENSTOCK_CHECK(made->code, "the pattern '", text_.substr(0, 200), "' is not usable at offset ",
                 offset, ": ", pcre2_message(error));
  pcre2_jit_compile(made->code.get(), PCRE2_JIT_COMPLETE);  // optional: matching is slower without
  code_ = std::move(made);
}

Pattern::~Pattern() = default;

void Pattern::for_each_match(
    std::string_view text,
    const std::function<void(std::size_t begin, std::size_t end)>& visit) const {
  const std::unique_ptr<pcre2_match_data, Code::Free> data(
      pcre2_match_data_create(1, nullptr));  // the position of the whole match alone
  const std::unique_ptr<pcre2_match_context, Code::Free> limits(
      pcre2_match_context_create(nullptr));
  PENSTOCK_CHECK(data && limits, "not enough memory to match a pattern");
  const std::size_t steps = kMatchSteps + kMatchStepsPerByte * text.size();
  pcre2_set_match_limit(limits.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(steps, 0xffffffff)));
  pcre2_set_heap_limit(limits.get(), kMatchHeapKib);
  const double limit = kSecondsPerText + kSecondsPerByte * static_cast<double>(text.size());
  double start = 0;
  int matches = 0;
  std::size_t base = 0;
  while (base < text.size()) {
    const std::string_view rest = text.substr(base);
    const std::string_view valid = rest.substr(0, find_invalid_utf8(rest));
    for (std::size_t at = 0; at < valid.size();) {
      const auto match = [&](std::uint32_t options) {
        return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(valid.data()),
                           valid.size(), at, options | PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                           data.get(), limits.get());
      };
      int found = match(0);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
      PENSTOCK_CHECK(found >= 0 || found == PCRE2_ERROR_NOMATCH, "the pattern '",
                     text_.substr(0, 200), "' fails on the text at byte ", base + at, ": ",
                     pcre2_message(found));
      std::size_t end = at + 1;
      if (found >= 0) {
        const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
        end = place[1];
        // \K can move the begin of a match.
        PENSTOCK_CHECK(place[0] == at && end > at, "the pattern '", text_.substr(0, 200),
                       "' moves the begin of its match, which is not implemented");
        visit(base + at, base + end);
      } else {
        while (end < valid.size() && (valid[end] & 0xc0) == 0x80) ++end;
      }
      at = end;
      if (++matches % kMatchesPerClock != 0) continue;
      const double now = processor_seconds();
      if (start == 0) start = now;
      PENSTOCK_CHECK(now - start < limit, "the pattern '", text_.substr(0, 200),
                     "' takes too long on the text");
    }
    base += valid.size();
    // Skips one invalid byte: the bytes after it may be valid again.
    if (base < text.size()) ++base;
  }
}

}  // namespace penstock
