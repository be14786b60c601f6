// Asks the user questions at the terminal.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// Whether a user can be asked: standard input and standard error are a terminal.
bool can_ask();

/// Prints the question with its default `usual`, which an empty answer takes, and reads a line. If
/// `wrong(answer)` is not "", prints that complaint and asks again. Throws Error if the input ends.
std::string ask(const std::string& question, const std::string& usual,
                const std::function<std::string(const std::string&)>& wrong);

}  // namespace penstock
