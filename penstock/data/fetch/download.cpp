#include "penstock/data/fetch/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "penstock/base/ascii_lower.h"
#include "penstock/base/atomic_files.h"
#include "penstock/base/file_lock.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/base/links.h"
#include "penstock/base/new_folders.h"
#include "penstock/base/progress.h"

namespace penstock {
namespace {

/// The headers that identify one version of the file at an address. They are stored beside the
/// partial file.
struct Validators {
  std::string etag, modified;
  /// The value for If-Range. A weak ETag does not guarantee equal bytes, so it is not used.
  std::string strong() const { return etag.empty() || etag.starts_with("W/") ? modified : etag; }
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), ascii_lower);
  return out;
}

/// The headers of one response that matter here.
struct ResponseHeaders {
  Validators validators;
  std::optional<std::uint64_t> range_begin, range_total;  // of Content-Range

  void take(std::string_view line) {
    if (line.starts_with("HTTP/")) *this = {};  // the next response after a redirection
    const auto colon = line.find(':');
    if (colon == line.npos) return;
    const std::string name = lower_case(line.substr(0, colon));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
      value.remove_prefix(1);
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
      value.remove_suffix(1);
    if (name == "etag") validators.etag = value;
    if (name == "last-modified") validators.modified = value;
    if (name == "content-range") take_range(value);
  }

 private:
  /// Reads a Content-Range such as "bytes 100-199/200" or "bytes */200".
  void take_range(std::string_view value) {
    if (!value.starts_with("bytes ")) return;
    value.remove_prefix(6);
    const auto number = [](std::string_view text) -> std::optional<std::uint64_t> {
      std::uint64_t out = 0;
      const auto got = std::from_chars(text.data(), text.data() + text.size(), out);
      if (got.ec != std::errc()) return std::nullopt;
      return out;
    };
    range_begin = number(value);
    if (const auto slash = value.find('/'); slash != value.npos)
      range_total = number(value.substr(slash + 1));
  }
};

class Download {
 public:
  explicit Download(const DownloadOptions& options)
      : options_(options),
        place_(followed(options.path).string()),
        part_(place_ + ".part"),
        notes_(place_ + ".part.json") {}

  DownloadResult run() {
    const NewFolders folders(fs_, parent_directory(place_));  // a failed download leaves none
    {
      const FileLock lock(part_);
      try {
        transfer();
      } catch (const Error&) {
        if (fs_.size(part_) == 0) remove_part();  // nothing to resume from
        throw;
      }
      if (options_.verify) {
        try {
          options_.verify(part_);
        } catch (const Error&) {
          remove_part();
          throw;
        }
      }
      if (options_.before_rename) options_.before_rename();
      result_.bytes = fs_.size(part_);
      fs_.remove_all(notes_);
      fs_.rename(part_, place_);
      fs_.sync_directory(parent_directory(place_));
    }
    return result_;
  }

 private:
  void remove_part() {
    fs_.remove_all(notes_);
    fs_.remove_all(part_);
  }

  /// Downloads the rest of the file into the partial file, and syncs it.
  void transfer() {
    std::uint64_t have = fs_.size(part_);
    const std::string validator = have > 0 ? noted_validator() : "";
    if (validator.empty()) have = 0;
    if (request(have, validator)) return;
    // The server has another version of the file, or does not serve ranges in the expected way.
    const bool whole = request(0, "");
    PENSTOCK_ASSERT(whole);
  }

  /// The validator in the notes of the partial file; "" if the download must start again.
  std::string noted_validator() {
    if (!fs_.exists(notes_)) return {};
    const auto json = nlohmann::json::parse(fs_.read(notes_), nullptr, false);
    if (!json.is_object()) return {};
    const auto text = [&](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (text("url") != options_.url) return {};
    return Validators{text("etag"), text("last_modified")}.strong();
  }

  /// Sends one request, from byte `have` on. Returns false if the response does not continue the
  /// partial file.
  bool request(std::uint64_t have, const std::string& validator) {
    headers_ = {};
    file_ = nullptr;
    error_ = nullptr;
    have_ = have;
    validator_ = validator;
    fit_ = Fit::kUnknown;
    curl_ =
        std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>(curl_easy_init(), curl_easy_cleanup);
    PENSTOCK_ASSERT(curl_ != nullptr);
    char reason[CURL_ERROR_SIZE] = "";
    std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> list(nullptr, curl_slist_free_all);
    set(CURLOPT_URL, options_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
    set(CURLOPT_ERRORBUFFER, reason);
    set(CURLOPT_CONNECTTIMEOUT, options_.connect_seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, options_.stall_seconds);
    if (have > 0) {
      set(CURLOPT_RANGE, fmt::format("{}-", have).c_str());
      list.reset(curl_slist_append(nullptr, ("If-Range: " + validator).c_str()));
      set(CURLOPT_HTTPHEADER, list.get());
    }
    set(CURLOPT_HEADERFUNCTION, &Download::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Download::on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Download::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    const CURLcode code = curl_easy_perform(curl_.get());
    if (error_) std::rethrow_exception(error_);
    if (fit_ == Fit::kNoContinuation) return false;
    if (code != CURLE_OK) explain(code, reason);
    if (fit_ == Fit::kUnknown) judge();  // a response without a body
    if (fit_ == Fit::kNoContinuation) return false;
    if (file_) {
      file_->sync();
      file_->close();
    }
    return true;
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    PENSTOCK_ASSERT(curl_easy_setopt(curl_.get(), option, value) == CURLE_OK, "option ", option);
  }

  /// Decides from the headers how the response fits the partial file. Opens the partial file for
  /// the body.
  void judge() {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    fit_ = Fit::kBody;
    if (status == 206 && have_ > 0) {
      const bool same =
          headers_.range_begin == have_ &&
          (headers_.validators.strong().empty() || headers_.validators.strong() == validator_);
      if (!same) fit_ = Fit::kNoContinuation;
      result_.resumed_from = same ? have_ : 0;
    } else if (status == 416 && have_ > 0) {
      // The server has nothing left to send if the partial file was complete.
      fit_ = headers_.range_total == have_ ? Fit::kNothingLeft : Fit::kNoContinuation;
      result_.resumed_from = fit_ == Fit::kNothingLeft ? have_ : 0;
    } else if (status == 200) {
      have_ = 0;  // a server without ranges, or with a changed file, sends the whole file
      result_.resumed_from = 0;
    } else {
      const char* meaning = status == 404 || status == 410   ? " (not found)"
                            : status == 401 || status == 403 ? " (refused)"
                            : status == 429                  ? " (too many requests; try later)"
                            : status >= 500                  ? " (its own failure; try later)"
                                                             : "";
      throw UnavailableError(
          concat("cannot fetch ", options_.url, ": the server answered ", status, meaning));
    }
    if (fit_ != Fit::kBody) return;
    if (have_ == 0) {
      const auto& validators = headers_.validators;
      // The partial file is emptied before the notes describe another version.
      fs_.open(part_, OpenMode::kTruncate)->close();
      const nlohmann::ordered_json notes = {
          {"url", options_.url}, {"etag", validators.etag}, {"last_modified", validators.modified}};
      write_file_atomically(fs_, notes_, json_text(notes, 1) + "\n");
    }
    file_ = fs_.open(part_, OpenMode::kAppend);
  }

  [[noreturn]] void explain(CURLcode code, const char* reason) {
    const std::string why = *reason ? reason : curl_easy_strerror(code);
    if (fit_ == Fit::kUnknown)
      throw UnavailableError(
          concat("cannot fetch ", options_.url, ": ", why, "; is the network there?"));
    fail("the download of ", options_.url, " broke off: ", why, "; ",
         grouped(static_cast<long long>(fs_.size(part_))), " bytes are kept in '", part_,
         "': run the same command again to go on from there");
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    static_cast<Download*>(self)->headers_.take({data, size * count});
    return size * count;
  }

  /// Writes the body. No exception may pass through libcurl, so an exception is stored and the
  /// transfer ends.
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self) {
    auto& download = *static_cast<Download*>(self);
    try {
      if (download.fit_ == Fit::kUnknown) download.judge();
      if (download.fit_ == Fit::kNothingLeft) return size * count;
      if (download.fit_ == Fit::kNoContinuation) return 0;
      download.file_->write(bytes_of({data, size * count}));
      return size * count;
    } catch (const DiskFullError& error) {
      download.error_ = std::make_exception_ptr(
          DiskFullError(concat(error.what(), "; what has come is kept in '", download.part_,
                               "': make room and run the same command again to go on from there")));
    } catch (...) {
      download.error_ = std::current_exception();
    }
    return 0;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    auto& download = *static_cast<Download*>(self);
    if (!download.options_.progress || download.fit_ != Fit::kBody) return 0;
    try {
      const auto have = download.have_;
      download.options_.progress(have + static_cast<std::uint64_t>(now),
                                 total > 0 ? have + static_cast<std::uint64_t>(total) : 0);
      return 0;
    } catch (...) {
      download.error_ = std::current_exception();
      return 1;
    }
  }

  enum class Fit { kUnknown, kBody, kNothingLeft, kNoContinuation };

  const DownloadOptions& options_;
  FileSystem& fs_ = real_file_system();
  std::string place_, part_, notes_;  // the target of a link; the part and notes are beside it
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_{nullptr, curl_easy_cleanup};
  ResponseHeaders headers_;
  std::unique_ptr<OutputFile> file_;
  std::exception_ptr error_;
  std::uint64_t have_ = 0;
  std::string validator_;
  Fit fit_ = Fit::kUnknown;
  DownloadResult result_;
};

}  // namespace

DownloadResult download(const DownloadOptions& options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  PENSTOCK_CHECK(ready == CURLE_OK, "libcurl cannot be used here: ", curl_easy_strerror(ready));
  return Download(options).run();
}

}  // namespace penstock
