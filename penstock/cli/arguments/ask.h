// Questions to whoever sits at the terminal.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// Whether somebody can be asked: standard input and standard error are a terminal.
bool can_ask();

/// Prints the question with what an empty answer means, and reads a line until `wrong(answer)` is
/// "": else it says what is wrong and asks again. Throws Error where the input ends.
std::string ask(const std::string& question, const std::string& usual,
                const std::function<std::string(const std::string&)>& wrong);

}  // namespace penstock
