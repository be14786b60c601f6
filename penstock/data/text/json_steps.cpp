#include "penstock/data/text/json_steps.h"

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/pre_tokenizers.h"

namespace penstock {
namespace {

using nlohmann::json;

/// Unicode's punctuation and ASCII's symbols.
constexpr const char* kPunctuationCharacter = R"([\p{P}$+<=>^`|~])";

std::string step_type(const json& step, const char* what) {
  PENSTOCK_CHECK(step.is_object() && step.contains("type") && step.at("type").is_string(), "the ",
                 what, " has no type");
  return step.at("type").get<std::string>();
}

/// Calls visit(step, type) for each step of a Sequence, or for the step itself.
template <class Visitor>
void for_each_step(const json& step, const char* what, const char* list, Visitor visit) {
  if (step.is_null()) return;
  const std::string type = step_type(step, what);
  if (type != "Sequence") return visit(step, type);
  for (const json& inner : step.at(list)) {
    const std::string inner_type = step_type(inner, what);
    PENSTOCK_CHECK(inner_type != "Sequence", "a Sequence within a Sequence is not implemented");
    visit(inner, inner_type);
  }
}

bool flag(const json& step, const char* name, bool otherwise) {
  return step.contains(name) && !step.at(name).is_null() ? step.at(name).get<bool>() : otherwise;
}

/// {"String": ...} or {"Regex": ...}; older files have the bare string.
std::shared_ptr<const Pattern> read_pattern(const json& pattern) {
  if (pattern.is_string()) return std::make_shared<Pattern>(pattern.get<std::string>(), true);
  if (pattern.contains("String"))
    return std::make_shared<Pattern>(pattern.at("String").get<std::string>(), true);
  return std::make_shared<Pattern>(pattern.at("Regex").get<std::string>());
}

SplitBehaviour read_behaviour(const std::string& name) {
  if (name == "Isolated") return SplitBehaviour::kIsolated;
  if (name == "Removed") return SplitBehaviour::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehaviour::kMergedWithNext;
  PENSTOCK_CHECK(name == "Contiguous", "the behaviour '", name, "' of a cut is not known");
  return SplitBehaviour::kContiguous;
}

void add_normalizer(const json& step, const std::string& type, JsonSteps& out) {
  const std::pair<const char*, NormalForm> forms[] = {{"NFC", NormalForm::kNfc},
                                                      {"NFD", NormalForm::kNfd},
                                                      {"NFKC", NormalForm::kNfkc},
                                                      {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : forms)
    if (type == name) {
      out.steps.push_back(normal_form_step(form));
      const bool first_nfc = form == NormalForm::kNfc && out.steps.size() == 1;
      out.composes = out.composes || first_nfc;
      out.plain = out.plain && first_nfc;
      return;
    }
  if (type == "Prepend") {
    const auto prefix = step.at("prepend").get<std::string>();
    out.plain = out.plain && out.steps.empty() && prefix == kSpaceMark;
    out.prefixes_space = true;
    out.steps.push_back(prepend_step(prefix));
  } else if (type == "Replace") {
    const auto pattern = read_pattern(step.at("pattern"));
    const auto content = step.at("content").get<std::string>();
    const bool marks = pattern->text() == " " && content == kSpaceMark && out.mark.empty();
    out.plain = out.plain && marks;
    if (marks) out.mark = content;
    out.steps.push_back(replace_step(pattern, content));
  } else {
    fail("the normalizer '", type,
         "' is not implemented; NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence are");
  }
}

void add_cut(std::shared_ptr<const TextStep> step, JsonSteps& out) {
  out.steps.push_back(out.bytes ? byte_names_step(std::move(step)) : std::move(step));
}

void add_isolating(const std::string& pattern, JsonSteps& out) {
  (out.bytes ? out.byte_patterns : out.patterns).push_back(pattern);
  add_cut(isolating_step(pattern), out);
}

/// Adds a cut that a list of isolating patterns cannot describe.
void add_other_cut(std::shared_ptr<const TextStep> step, JsonSteps& out) {
  out.plain = false;
  add_cut(std::move(step), out);
}

/// Cuts at each character of the class.
void add_class(const std::string& characters, SplitBehaviour behaviour, JsonSteps& out) {
  if (behaviour == SplitBehaviour::kIsolated) return add_isolating(characters, out);
  // A run of such characters is one match.
  if (behaviour == SplitBehaviour::kContiguous) return add_isolating(characters + "+", out);
  add_other_cut(split_step(std::make_shared<Pattern>(characters), behaviour, false), out);
}

void add_byte_level(const json& step, JsonSteps& out) {
  PENSTOCK_CHECK(!out.bytes, "a second ByteLevel is not implemented");
  if (flag(step, "add_prefix_space", true)) add_other_cut(prefix_space_step(), out);
  if (flag(step, "use_regex", true)) add_isolating(pre_tokenizer_patterns("gpt-2").front(), out);
  out.bytes = true;  // later steps see the names of bytes
}

void add_metaspace(const json& step, JsonSteps& out) {
  out.mark = step.at("replacement").get<std::string>();
  // "prepend_scheme" replaced "add_prefix_space".
  std::string scheme = flag(step, "add_prefix_space", true) ? "always" : "never";
  if (step.contains("prepend_scheme")) scheme = step.at("prepend_scheme").get<std::string>();
  const MarkBegin begin =
      scheme == "never"   ? MarkBegin::kNever
      : scheme == "first" ? MarkBegin::kFirst
      : scheme == "always"
          ? MarkBegin::kAlways
          : throw Error("Metaspace: the prepend_scheme '" + scheme + "' is not known");
  const bool cuts = flag(step, "split", true);
  out.plain = out.plain && out.steps.empty() && !cuts && out.mark == kSpaceMark;
  out.prefixes_space = begin != MarkBegin::kNever;
  out.prefixes_once = begin == MarkBegin::kFirst;
  out.steps.push_back(metaspace_step(out.mark, begin, cuts));
}

void add_split(const json& step, JsonSteps& out) {
  const auto pattern = read_pattern(step.at("pattern"));
  const bool inverted = flag(step, "invert", false);
  const auto behaviour = read_behaviour(step.at("behavior").get<std::string>());
  // The flag `invert` does not matter: isolating the parts between matches cuts at the same places.
  const bool isolates = behaviour == SplitBehaviour::kIsolated && !step.at("pattern").is_string() &&
                        step.at("pattern").contains("Regex");
  if (isolates) return add_isolating(pattern->text(), out);
  add_other_cut(split_step(pattern, behaviour, inverted), out);
}

void add_pre_tokenizer(const json& step, const std::string& type, JsonSteps& out) {
  if (type == "Split") {
    add_split(step, out);
  } else if (type == "ByteLevel") {
    add_byte_level(step, out);
  } else if (type == "Digits") {
    add_class("\\p{N}",
              flag(step, "individual_digits", false) ? SplitBehaviour::kIsolated
                                                     : SplitBehaviour::kContiguous,
              out);
  } else if (type == "Punctuation") {
    const bool said = step.contains("behavior") && !step.at("behavior").is_null();
    add_class(
        kPunctuationCharacter,
        said ? read_behaviour(step.at("behavior").get<std::string>()) : SplitBehaviour::kIsolated,
        out);
  } else if (type == "Metaspace") {
    PENSTOCK_CHECK(!out.bytes, "the pre_tokenizer 'Metaspace' after ByteLevel is not implemented");
    add_metaspace(step, out);
  } else {
    fail("the pre_tokenizer '", type,
         "' is not implemented; Split, ByteLevel, Digits, Punctuation, Metaspace and Sequence are");
  }
}

void add_decoder(const json& step, const std::string& type, JsonDecoder& out) {
  if (type == "ByteLevel") {
    out.bytes = true;
  } else if (type == "ByteFallback") {
    out.byte_fallback = true;
  } else if (type == "Metaspace") {
    out.mark = step.at("replacement").get<std::string>();
    const bool prefixed = step.contains("prepend_scheme") ? step.at("prepend_scheme") != "never"
                                                          : flag(step, "add_prefix_space", true);
    out.drops_first_space = prefixed;
  } else if (type == "Replace") {
    const bool spaces = step.at("content") == " ";
    PENSTOCK_CHECK(spaces, "a decoder that replaces by anything but a space is not implemented");
    out.mark = read_pattern(step.at("pattern"))->text();
  } else if (type == "Strip") {
    const bool known = step.at("content") == " " && step.at("stop") == 0 &&
                       (step.at("start") == 0 || step.at("start") == 1);
    PENSTOCK_CHECK(known,
                   "a decoder that strips more than one space at the begin is not "
                   "implemented");
    out.drops_first_space = step.at("start") == 1;
  } else {
    PENSTOCK_CHECK(type == "Fuse", "the decoder '", type,
                   "' is not implemented; ByteLevel, ByteFallback, Metaspace, Replace, Strip, Fuse "
                   "and Sequence are");
  }
}

}  // namespace

JsonSteps read_normalizer(const json& normalizer) {
  JsonSteps out;
  for_each_step(
      normalizer, "normalizer", "normalizers",
      [&](const json& step, const std::string& type) { add_normalizer(step, type, out); });
  return out;
}

JsonSteps read_pre_tokenizer(const json& pre_tokenizer) {
  JsonSteps out;
  for_each_step(
      pre_tokenizer, "pre_tokenizer", "pretokenizers",
      [&](const json& step, const std::string& type) { add_pre_tokenizer(step, type, out); });
  return out;
}

JsonDecoder read_decoder(const json& decoder) {
  JsonDecoder out;
  for_each_step(decoder, "decoder", "decoders",
                [&](const json& step, const std::string& type) { add_decoder(step, type, out); });
  return out;
}

}  // namespace penstock
