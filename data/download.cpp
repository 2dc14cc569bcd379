#include "heddle/data/download.h"

#include "heddle/core/error.h"

#ifndef HEDDLE_WITH_DOWNLOAD

namespace heddle {
namespace {

[[noreturn]] void not_built(const char* what) {
  fail(
      "{}: this build has no downloads: install libcurl, libarchive and OpenSSL with their headers "
      "and build again, or fetch and unpack cifar-10-binary.tar.gz by hand",
      what);
}

}  // namespace

bool can_download() { return false; }

std::filesystem::path download_cifar10(const std::filesystem::path&, const DownloadOptions&) {
  not_built("download");
}

std::string sha256_of_file(const std::filesystem::path&) { not_built("sha256"); }

void unpack_archive(const std::filesystem::path&, const std::filesystem::path&) {
  not_built("unpack");
}

}  // namespace heddle

#else

#include <curl/curl.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace heddle {

namespace fs = std::filesystem;

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

int64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

/// What went wrong (nothing where the partial file now has all its bytes), and whether another
/// attempt at the same URL may go better.
struct Outcome {
  std::string problem;
  bool again = false;
};

/// One attempt at one URL, appending to the partial file.
class Transfer {
 public:
  Transfer(const DownloadOptions& options, const std::string& url, const fs::path& part)
      : options_(options), url_(url), part_(part), have_(size_or_zero(part)) {}

  Outcome run() {
    file_.reset(std::fopen(part_.c_str(), "ab"));
    if (!file_) fail("download: {} cannot be written: {}", part_.string(), std::strerror(errno));
    curl_ =
        std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>(curl_easy_init(), curl_easy_cleanup);
    HEDDLE_CHECK(curl_ != nullptr, "download: libcurl could not be started");
    configure();
    const CURLcode code = curl_easy_perform(curl_.get());
    const bool flushed = std::fclose(file_.release()) == 0;
    if (disk_error_.empty() && !flushed) disk_error_ = std::strerror(errno);
    if (!disk_error_.empty())
      fail("download: {} cannot be written: {}", part_.string(), disk_error_);
    return outcome(code);
  }

 private:
  void configure() {
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "heddle");
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_seconds));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_seconds));
    set(CURLOPT_ERRORBUFFER, message_.data());
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
    set(CURLOPT_WRITEDATA, this);
    if (have_ > 0) set(CURLOPT_RANGE, fmt::format("{}-", have_).c_str());
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(curl_.get(), option, value);
    HEDDLE_CHECK(code == CURLE_OK, "download: libcurl refuses option {}: {}",
                 static_cast<int>(option), curl_easy_strerror(code));
  }

  static size_t on_data(char* data, size_t one, size_t n, void* self) {
    return static_cast<Transfer*>(self)->write(data, one * n);
  }

  /// Called with each piece of the body; another count than `n` ends the transfer.
  size_t write(const char* data, size_t n) {
    if (!begun_ && !begin()) return 0;
    if (have_ + static_cast<int64_t>(n) > options_.bytes) {
      refused_ = fmt::format("it sends more than the {} bytes expected", options_.bytes);
      return 0;
    }
    if (std::fwrite(data, 1, n, file_.get()) != n) {
      disk_error_ = std::strerror(errno);
      return 0;
    }
    have_ += static_cast<int64_t>(n);
    if (options_.progress) options_.progress(have_, options_.bytes);
    return n;
  }

  /// Before the first byte: does the server continue, and does it promise the right length?
  bool begin() {
    begun_ = true;
    long status = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (have_ > 0 && status != 206) {  // the whole file comes again
      file_.reset(std::fopen(part_.c_str(), "wb"));
      if (!file_) {
        disk_error_ = std::strerror(errno);
        return false;
      }
      have_ = 0;
    }
    if (length >= 0 && have_ + length != options_.bytes) {
      refused_ = fmt::format("it offers {} bytes, expected {}", have_ + length, options_.bytes);
      return false;
    }
    return true;
  }

  Outcome outcome(CURLcode code) {
    if (!refused_.empty()) {
      remove_file(part_);
      return {refused_, false};
    }
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 416) {  // no such range: what we have is not a part of this file
      remove_file(part_);
      return {"it has no more bytes than the partial file", true};
    }
    if (code != CURLE_OK)
      return {message_[0] != '\0' ? message_.data() : curl_easy_strerror(code), begun_};
    if (have_ < options_.bytes)
      return {fmt::format("it broke off after {} of {} bytes", have_, options_.bytes), begun_};
    return {};
  }

  const DownloadOptions& options_;
  std::string url_;
  fs::path part_;
  int64_t have_;
  bool begun_ = false;
  std::string refused_;     // the server has another file: its bytes are thrown away
  std::string disk_error_;  // ours: no other URL will help
  std::array<char, CURL_ERROR_SIZE> message_{};
  File file_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_{nullptr, curl_easy_cleanup};
};

/// Why the complete partial file is not the archive; empty where it is.
std::string verify(const fs::path& part, const DownloadOptions& options) {
  const int64_t bytes = size_or_zero(part);
  if (bytes != options.bytes)
    return fmt::format("it has {} bytes, expected {}", bytes, options.bytes);
  const std::string sum = sha256_of_file(part);
  if (sum != options.sha256)
    return fmt::format("its SHA-256 is {}, expected {}", sum, options.sha256);
  return "";
}

/// Fetches from one URL. What went wrong, or empty.
std::string fetch(const std::string& url, const fs::path& part, const DownloadOptions& options) {
  std::string problem;
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    const int64_t before = size_or_zero(part);
    if (before < options.bytes) {
      const Outcome outcome = Transfer(options, url, part).run();
      problem = outcome.problem;
      if (!problem.empty() && outcome.again) continue;
      if (!problem.empty()) return problem;
    }
    problem = verify(part, options);
    if (problem.empty()) return "";
    remove_file(part);
    if (before == 0) return problem;  // else the beginning may have been another file's: anew
  }
  return problem;
}

void fetch_any(const fs::path& archive, const DownloadOptions& options) {
  fs::path part = archive;
  part += ".part";
  if (size_or_zero(part) > options.bytes) remove_file(part);
  std::string problems;
  for (const std::string& url : options.urls) {
    const std::string problem = fetch(url, part, options);
    if (problem.empty()) {
      fs::rename(part, archive);
      return;
    }
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", url, problem);
  }
  const int64_t kept = size_or_zero(part);
  if (kept == 0) remove_file(part);
  fail(
      "download: {} could not be fetched: {}{}. Without a network here: fetch it elsewhere, put it "
      "into {}, and run this again",
      options.archive, problems,
      kept == 0 ? "" : fmt::format(". Its first {} bytes are kept for the next try", kept),
      archive.parent_path().string());
}

void start_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  HEDDLE_CHECK(code == CURLE_OK, "download: libcurl could not be started: {}",
               curl_easy_strerror(code));
}

}  // namespace

bool can_download() { return true; }

std::string sha256_of_file(const fs::path& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail("sha256: {} cannot be read: {}", path.string(), std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<unsigned char> buffer(1 << 20);
  while (good) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (n == 0) break;
    good = EVP_DigestUpdate(context.get(), buffer.data(), n) == 1;
  }
  if (std::ferror(file.get()) != 0)
    fail("sha256: {} cannot be read: {}", path.string(), std::strerror(errno));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1;
  HEDDLE_CHECK(good, "sha256: OpenSSL failed for {}", path.string());
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

fs::path download_cifar10(const fs::path& folder, const DownloadOptions& options) {
  HEDDLE_CHECK(options.attempts >= 1 && !options.urls.empty(),
               "download: {} attempts at {} URLs, expected at least one", options.attempts,
               options.urls.size());
  fs::path target = folder / options.unpacked;
  if (fs::exists(target)) return target;
  start_curl();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("download: {} cannot be made: {}", folder.string(), error.message());
  const fs::path archive = folder / options.archive;
  if (fs::exists(archive)) {
    const std::string problem = verify(archive, options);
    if (!problem.empty())
      fail("download: {} is not the official archive: {}; remove it and run this again",
           archive.string(), problem);
  } else {
    fetch_any(archive, options);
  }
  unpack_archive(archive, target);
  remove_file(archive);
  return target;
}

}  // namespace heddle

#endif
