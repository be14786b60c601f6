// Downloads one file over HTTP, through libcurl. A download is resumable, and its file is complete
// or absent. fetch.h checks the content.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "penstock/base/error.h"

namespace penstock {

/// The server could not be reached or would not serve the file, and nothing has been changed:
/// another address may do.
class UnavailableError : public Error {
 public:
  using Error::Error;
};

struct DownloadOptions {
  std::string url;
  /// Where the file goes, or a link (base/links.h) that leads there; its folder is made.
  std::string path;
  /// Bytes so far, and in all (0: the server does not say).
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  /// Checks the finished file, which still has another name. Throws if its content is wrong; the
  /// file is then removed.
  std::function<void(const std::string& file)> verify = {};
  /// Called once the file is verified, before it gets its name.
  std::function<void()> before_rename = {};
  /// Seconds without a byte, and to connect, before giving up.
  long stall_seconds = 60, connect_seconds = 30;
};

struct DownloadResult {
  std::uint64_t bytes = 0;
  /// Bytes kept from an earlier, interrupted download.
  std::uint64_t resumed_from = 0;
};

/// Downloads `url` to `path` by way of `path`.part, beside what a link leads to. A part that is
/// already there, from the same address, is continued if the server can (Range) and says by ETag or
/// Last-Modified, kept in `path`.part.json, that the file is the same; otherwise it is begun anew.
/// When the connection or the disk fails, or the process is killed, the part stays for the next
/// call; folders that were made for nothing are removed. One process at a time: the part is locked.
/// Throws UnavailableError (refused, no such host, time-out before the first byte, a status that is
/// not success), DiskFullError, or Error (cut connection, verify).
DownloadResult download(const DownloadOptions& options);

}  // namespace penstock
