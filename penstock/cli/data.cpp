// `penstock data prepare`: text files to a corpus.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/arguments/whole_number.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/data/corpus/protocols.h"
#include "penstock/data/prepare/prepare.h"
#include "penstock/data/tokenizers/from_spec.h"

namespace penstock {
namespace {

struct DataArguments {
  PrepareOptions prepare;
  std::vector<std::string> inputs, domains, validation, test;
  std::string split;
  bool dedup = false, no_eod = false, json = false;
};

DataInput labelled(const std::string& text, std::string_view option) {
  const auto equals = text.find('=');
  PENSTOCK_CHECK(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), option,
                 " '", text, "' should be NAME=PATH");
  return {.path = text.substr(equals + 1), .domain = text.substr(0, equals)};
}

PrepareOptions prepare_options(const DataArguments& options, const CLI::App& command) {
  PrepareOptions out = options.prepare;
  for (const auto& path : options.inputs) out.inputs.push_back({.path = path});
  for (const auto& text : options.domains) out.inputs.push_back(labelled(text, "--domain"));
  const bool held_out = !options.validation.empty() || !options.test.empty();
  PENSTOCK_CHECK(
      !held_out || options.split.empty(),
      "--split cannot be used with --validation or --test: all other text is for training");
  for (const char* fixed : {"--tokenizer", "--split", "--no-eod"})
    PENSTOCK_CHECK(out.protocol.empty() || command.count(fixed) == 0, "--protocol ", out.protocol,
                   " says what ", fixed, " would; leave one of the two out");
  PENSTOCK_CHECK(out.protocol.empty() || !held_out || protocol(out.protocol).split.empty(),
                 "--protocol ", out.protocol,
                 " cuts its one file itself; leave out --validation and --test");
  if (held_out) out.split = "1,0,0";
  if (!options.split.empty()) out.split = options.split;
  // With a single domain the held-out files belong to that domain. Their own file names would give
  // the domains "valid" and "test".
  std::string only;
  if (out.inputs.size() == 1)
    only = out.inputs[0].domain.empty() ? default_domain(out.inputs[0].path) : out.inputs[0].domain;
  const auto add = [&](const std::vector<std::string>& paths, Split split) {
    for (const auto& text : paths) {
      DataInput input{.path = text, .domain = only};
      if (text.find('=') != std::string::npos && !std::filesystem::exists(text))
        input = labelled(text, "--" + std::string(split_name(split)));
      input.split = split;
      out.inputs.push_back(input);
    }
  };
  add(options.validation, Split::kValidation);
  add(options.test, Split::kTest);
  if (command.count("--dedup") > 0) out.dedup = options.dedup;
  out.end_of_document = !options.no_eod;
  if (!is_tokenizer_kind(out.tokenizer)) {
    PENSTOCK_CHECK(std::filesystem::exists(out.tokenizer), "unknown tokenizer '", out.tokenizer,
                   "': to make one of the text, use ", kTokenizerKinds,
                   "; to take one that exists, give ", kTokenizerPlaces);
    out.given = tokenizer_argument(out.tokenizer);
  }
  return out;
}

void print_result(const PrepareResult& result) {
  fmt::print("\n{:<16}", "domain");
  for (const auto name : kSplitNames) fmt::print("{:>14}", name);
  fmt::print("   tokens\n");
  for (const auto& domain : result.domains) {
    fmt::print("{:<16}", domain.name);
    for (const auto& count : domain.counts) fmt::print("{:>14}", grouped(count.tokens));
    fmt::print("\n");
  }
  if (!result.packages.empty())
    fmt::print("text of {}, whose licences are in {}/corpus.json\n",
               count_text(std::ssize(result.packages), "package"), result.path);
  if (result.deduplicated) {
    fmt::print("removed {} of {} paragraphs as near-duplicates ({} bytes), and {} with them\n",
               grouped(result.removed_paragraphs), grouped(result.paragraphs),
               grouped(result.removed_bytes), count_text(result.removed_documents, "document"));
    fmt::print("{:.2f} % of validation paragraphs occur in training\n",
               100 * result.validation_overlap);
  }
  for (const auto& note : result.notes) fmt::print("note: {}\n", note);
  fmt::print("corpus {} (tokenizer {}, vocabulary {}, content {})\n", result.path, result.tokenizer,
             result.vocab_size, result.content_hash);
}

void run_prepare(const DataArguments& options, const CLI::App& command) {
  PrepareOptions prepare = prepare_options(options, command);
  check_can_make(prepare.out);
  EndOnSignal interrupt(kNothingWritten);
  prepare.before_writing = [&] { interrupt.disarm(); };
  const PrepareResult result = prepare_corpus(prepare, [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  if (options.json) {
    fmt::print("{}\n", to_json(result));
  } else {
    print_result(result);
  }
}

/// The options of the text: its files, its tokenizer and its held-out part.
void add_text_options(CLI::App& command, DataArguments& options) {
  PrepareOptions& prepare = options.prepare;
  command.add_option("INPUT", options.inputs,
                     "text, .jsonl, their .gz/.zst/.xz/.bz2, .zip or .tar, or folders of these");
  command
      .add_option("--out", prepare.out, "directory of the corpus; an earlier corpus is replaced")
      ->required();
  command
      .add_option(
          "--tokenizer", prepare.tokenizer,
          fmt::format("a new tokenizer, made from the text: {}; or an existing tokenizer: {}",
                      kTokenizerKinds, kTokenizerPlaces))
      ->capture_default_str();
  std::string names = "tokenizer and split as in papers:";
  for (const auto& entry : protocols())
    names += fmt::format(" {} ({});", entry.name, entry.summary);
  names.back() = '.';
  command.add_option("--protocol", prepare.protocol, names);
  command.add_option(
      "--split", options.split,
      "shares of train, validation and test in whole documents; contiguous:A,B,C: cut each "
      "domain's text in order; bytes:A,B,C: cut at exactly these bytes; a domain with too few "
      "documents, such as a single file, is also cut in order (default: " +
          prepare.split + ")");
  one_value_each(command.add_option("--validation", options.validation,
                                    "PATH or NAME=PATH of the validation split"));
  one_value_each(command.add_option("--test", options.test, "PATH or NAME=PATH of the test split"));
}

/// The options of a file's format and of the amount of text to take.
void add_reading_options(CLI::App& command, DataArguments& options) {
  PrepareOptions& prepare = options.prepare;
  one_value_each(command.add_option("--domain", options.domains,
                                    "NAME=PATH: an input with this domain label"));
  command.add_option("--field", prepare.read.field, "JSONL field that holds the text")
      ->capture_default_str();
  command.add_option("--domain-field", prepare.read.domain_field,
                     "JSONL field that names each document's domain; dots separate nested fields, "
                     "as in meta.pile_set_name");
  command.add_option(
      "--document-separator", prepare.read.separator,
      "separator between the documents of a text file: blank-lines, or literal text");
  command
      .add_option("--seed", prepare.seed,
                  "seed that selects the held-out documents, the system's files and the documents "
                  "of --most-bytes")
      ->check(whole_number(0))
      ->capture_default_str();
  command.add_flag(
      "--dedup,!--no-dedup", options.dedup,
      "remove near-duplicate paragraphs before the split (default: only with --system)");
  command.add_flag("--no-eod", options.no_eod,
                   "write no end-of-document token after each document");
  command
      .add_option("--most-bytes", prepare.most_bytes,
                  "largest number of bytes of text: whole documents, drawn with the seed before "
                  "the split, each domain in its proportion; 0: all")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--shard-tokens", prepare.shard_tokens,
                  "largest number of tokens per file: the tokens are written into several files "
                  "beside tokens.bin; the corpus is the same; 0: one file")
      ->check(whole_number(0))
      ->capture_default_str();
  command.add_flag("--system", prepare.system,
                   "use the text on this Debian machine, in several domains");
  command.add_flag("--more", prepare.more,
                   "with --system: also use the text of Debian's manuals, dictionaries and "
                   "sources, several hundred MB, downloaded through apt (about 560 MB)");
  command.add_option("--packages", prepare.packages,
                     "with --more: folder of .deb files to use in place of downloads");
  command.add_flag("--json", options.json, "print the result as one JSON object");
}

constexpr const char* kPrepareExamples =
    "Examples:\n"
    "  penstock data prepare --system --out corpus\n"
    "  penstock data prepare --system --more --tokenizer bpe:4096 --out large\n"
    "  penstock data prepare --system --most-bytes 14000000 --out one-pass\n"
    "  penstock data prepare pile/*.jsonl.zst --tokenizer bpe:32768 --shard-tokens 1000000000 "
    "--out pile\n"
    "  penstock data prepare input.txt --split contiguous:0.9,0.1,0 --out shakespeare\n"
    "  penstock data prepare train.txt.gz --validation valid.txt.gz --test test.txt.gz "
    "--tokenizer bpe:4096 --out wikitext\n"
    "  penstock data prepare notes.txt --tokenizer models/Qwen2.5-0.5B --out notes\n"
    "  penstock data prepare enwik8.zip --protocol enwik8 --out enwik8\n"
    "  penstock data prepare wikitext-103-v1.zip --protocol wikitext --out wikitext-103\n"
    "  penstock data prepare --domain web=c4.jsonl.zst --domain code=src/ --out mixed\n"
    "  penstock data prepare pile/*.jsonl.zst --domain-field meta.pile_set_name --out pile";

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Turn text into corpora for training and evaluation");
  data->require_subcommand(1);
  add_data_fetch_command(*data);
  CLI::App* command = data->add_subcommand(
      "prepare",
      "Tokenize text files and folders into a corpus with train, validation and test splits");
  const auto options = std::make_shared<DataArguments>();
  add_text_options(*command, *options);
  add_reading_options(*command, *options);
  command->footer(kPrepareExamples);
  command->callback([options, command] { run_prepare(*options, *command); });
}

}  // namespace penstock
