// Reads files and folders as documents with a domain label: one per text file, one per line of
// JSONL, or several per file if a separator is given.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/document_text.h"
#include "penstock/data/corpus/split.h"

namespace penstock {

struct Document {
  DocumentText text;
  std::string domain;
  /// The document's split, if the user gave one.
  std::optional<Split> split;
  /// For errors: the file, with the line or member if the file holds several documents.
  std::string source = {};
  /// Whether the document's file holds the literal separator of ReadOptions.
  bool separated = false;
};

/// A file or folder to read.
struct DataInput {
  std::string path;
  /// Empty: the first folder below `path`, or else the folder's or file's own name without
  /// suffixes.
  std::string domain = {};
  std::optional<Split> split = {};
};

struct ReadOptions {
  /// As TextFileOptions::folder (text_files.h).
  std::filesystem::path folder = {};
  /// The JSONL field that holds the text.
  std::string field = "text";
  /// The JSONL field that names a document's domain; dots lead to nested fields
  /// ("meta.pile_set_name"). Empty: the input's domain.
  std::string domain_field = {};
  /// What separates the documents of a plain file: "" for one document per file, "blank-lines", or
  /// the literal text of a separator.
  std::string separator = {};
};

/// The label that a file or folder gets from its own name: "a/wiki.txt.gz" is "wiki".
std::string default_domain(const std::string& path);

/// The files that read_documents() reads, sorted by path: the file itself, or those of a folder.
/// Throws Error for the folder of a corpus, a run or a model, which hold no text.
std::vector<std::filesystem::path> document_files(const std::string& path);

/// Calls visit(document) for each document of an input, in the order of sorted paths; empty
/// documents are left out. The document's text is a view that lasts until visit() returns. A folder
/// gives all its files except hidden ones and those of corpora; links to folders are not followed.
/// Throws Error for a file that is missing, truncated, not UTF-8, or JSONL without the field.
void for_each_document(const DataInput& input, const ReadOptions& options,
                       const std::function<void(Document)>& visit);
/// The documents of an input, with texts of their own.
std::vector<Document> read_documents(const DataInput& input, const ReadOptions& options);
/// The same, but throws Error if the input holds no text.
std::vector<Document> read_nonempty(const DataInput& input, const ReadOptions& options);
/// Throws the Error of an input without text.
[[noreturn]] void fail_without_text(const DataInput& input);
/// The same for a plain file's content, which may be a part of it.
/// @param name  the file's; it decides how the content is cut into documents
std::vector<Document> documents_in(const std::string& name, std::string_view content,
                                   const ReadOptions& options);

}  // namespace penstock
