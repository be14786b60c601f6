#include "penstock/cli/arguments/ask.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "penstock/base/error.h"

namespace penstock {

bool can_ask() { return ::isatty(STDIN_FILENO) && ::isatty(STDERR_FILENO); }

std::string ask(const std::string& question, const std::string& usual,
                const std::function<std::string(const std::string&)>& wrong) {
  for (std::string answer;;) {
    std::fprintf(stderr, "%s%s ", question.c_str(),
                 usual.empty() ? "" : (" [" + usual + "]").c_str());
    PENSTOCK_CHECK(std::getline(std::cin, answer), "no answer to '", question, "'");
    if (answer.empty()) answer = usual;
    const std::string complaint = wrong(answer);
    if (complaint.empty()) return answer;
    std::fprintf(stderr, "  %s\n", complaint.c_str());
  }
}

}  // namespace penstock
