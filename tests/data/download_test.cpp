#include "heddle/data/download.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "heddle/core/error.h"
#include "heddle/tests/data/loopback_server.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/temporary_folder.h"

namespace fs = std::filesystem;
using heddle::download_cifar10;
using heddle::DownloadOptions;
using heddle::test::LoopbackServer;
using heddle::test::range_of;
using heddle::test::response;
using heddle::test::TemporaryFolder;

namespace {

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// One entry of a tar archive: '0' a file, '5' a folder, '1' and '2' hard and symbolic links.
std::string tar_entry(const std::string& path, const std::string& body, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&header](size_t place, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(place));
  };
  const bool link = type == '1' || type == '2';
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", link ? 0 : body.size()));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  if (link) put(157, body);
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  if (link) return header;
  return header + body + std::string((512 - body.size() % 512) % 512, '\0');
}

std::string tar_of(const std::string& entries) { return entries + std::string(1024, '\0'); }

std::string good_archive() {
  return tar_of(tar_entry("cifar-10-batches-bin/", "", '5') +
                tar_entry("cifar-10-batches-bin/test_batch.bin", std::string(50'000, 'x')) +
                tar_entry("cifar-10-batches-bin/batches.meta.txt", "airplane\n"));
}

/// Options for an archive, as a server at `url` would have it.
DownloadOptions options_for(const std::string& archive, const std::vector<std::string>& urls) {
  const TemporaryFolder folder;
  write(folder / "a", archive);
  DownloadOptions options;
  options.urls = urls;
  options.bytes = static_cast<int64_t>(archive.size());
  options.sha256 = heddle::sha256_of_file(folder / "a");
  options.stall_seconds = 5;
  return options;
}

/// What a decent server sends, with ranges.
std::string serve(const std::string& archive, const std::string& request) {
  const size_t from = range_of(request);
  if (from > archive.size()) return response("416 Range Not Satisfiable", "", 0);
  const std::string rest = archive.substr(from);
  return response(from > 0 ? "206 Partial Content" : "200 OK", rest, rest.size());
}

void require_good(const fs::path& folder) {
  REQUIRE(read(folder / "cifar-10-batches-bin" / "test_batch.bin") == std::string(50'000, 'x'));
  REQUIRE(read(folder / "cifar-10-batches-bin" / "batches.meta.txt") == "airplane\n");
  // Nothing else is left: no archive, partial file or temporary folder.
  REQUIRE(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
}

void require_nothing(const fs::path& folder) { REQUIRE(fs::is_empty(folder)); }

}  // namespace

#define SKIP_WITHOUT_DOWNLOAD                                                               \
  if (!heddle::can_download()) {                                                            \
    REQUIRE_THROWS_WITH(download_cifar10("none"),                                           \
                        ContainsSubstring("this build has no downloads: install libcurl")); \
    return;                                                                                 \
  }

TEST_CASE("download: fetches, checks and unpacks") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string& request) { return serve(archive, request); });
  const TemporaryFolder folder;
  DownloadOptions options = options_for(archive, {server.url("a.tar.gz")});
  int64_t reported = 0;
  options.progress = [&](int64_t done, int64_t total) {
    REQUIRE(done > reported);
    REQUIRE(total == options.bytes);
    reported = done;
  };
  const fs::path data = download_cifar10(folder / "deep" / "er", options);
  REQUIRE(data == folder / "deep" / "er" / "cifar-10-batches-bin");
  REQUIRE(reported == options.bytes);
  require_good(folder / "deep" / "er");
  REQUIRE(download_cifar10(folder / "deep" / "er", options) == data);
  REQUIRE(server.requests().size() == 1);
}

TEST_CASE("download: continues where a server broke off") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string& request) {
    const std::string whole = serve(archive, request);
    return range_of(request) == 0 ? whole.substr(0, 20'000) : whole;
  });
  const TemporaryFolder folder;
  download_cifar10(folder.path(), options_for(archive, {server.url("a")}));
  require_good(folder.path());
  REQUIRE(server.requests().size() == 2);
  REQUIRE(range_of(server.requests()[1]) > 19'000);
}

TEST_CASE("download: a partial file of an earlier run is continued") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string& request) { return serve(archive, request); });
  const TemporaryFolder folder;
  write(folder / "cifar-10-binary.tar.gz.part", archive.substr(0, 30'000));
  download_cifar10(folder.path(), options_for(archive, {server.url("a")}));
  require_good(folder.path());
  REQUIRE(range_of(server.requests()[0]) == 30'000);
}

TEST_CASE("download: what keeps breaking off is kept for the next run") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string& request) {
    return serve(archive, request).substr(0, 5'000);  // a little more each time
  });
  const TemporaryFolder folder;
  const DownloadOptions options = options_for(archive, {server.url("a")});
  REQUIRE_THROWS_WITH(download_cifar10(folder.path(), options),
                      ContainsSubstring("could not be fetched") &&
                          ContainsSubstring("bytes are kept for the next try") &&
                          ContainsSubstring("put it into " + folder.path().string()));
  REQUIRE(server.requests().size() == 3);
  REQUIRE(fs::file_size(folder / "cifar-10-binary.tar.gz.part") > 14'000);
  REQUIRE_FALSE(fs::exists(folder / "cifar-10-batches-bin"));
}

TEST_CASE("download: a server that ignores ranges sends all of it again") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server(
      [&](const std::string&) { return response("200 OK", archive, archive.size()); });
  const TemporaryFolder folder;
  write(folder / "cifar-10-binary.tar.gz.part", std::string(30'000, '?'));
  download_cifar10(folder.path(), options_for(archive, {server.url("a")}));
  require_good(folder.path());
}

TEST_CASE("download: a partial file of something else is thrown away") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string& request) { return serve(archive, request); });
  for (const size_t bytes : {size_t{30'000}, archive.size(), archive.size() + 10}) {
    const TemporaryFolder folder;
    write(folder / "cifar-10-binary.tar.gz.part", std::string(bytes, '?'));
    download_cifar10(folder.path(), options_for(archive, {server.url("a")}));
    require_good(folder.path());
  }
}

TEST_CASE("download: another length than the archive's is refused before a byte is kept") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server(
      [&](const std::string&) { return response("200 OK", archive + "more", archive.size() + 4); });
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(download_cifar10(folder.path(), options_for(archive, {server.url("a")})),
                      ContainsSubstring(fmt::format("it offers {} bytes, expected {}",
                                                    archive.size() + 4, archive.size())));
  require_nothing(folder.path());
}

TEST_CASE("download: a body longer than expected is cut off and removed") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string&) {  // no Content-Length: until it closes
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + archive + std::string(100'000, 'x');
  });
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(download_cifar10(folder.path(), options_for(archive, {server.url("a")})),
                      ContainsSubstring("it sends more than the"));
  require_nothing(folder.path());
}

TEST_CASE("download: a body shorter than promised is no archive") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer server([&](const std::string&) {
    return response("200 OK", archive.substr(0, 1000), archive.size());
  });
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(download_cifar10(folder.path(), options_for(archive, {server.url("a")})),
                      ContainsSubstring("could not be fetched"));
  REQUIRE_FALSE(fs::exists(folder / "cifar-10-batches-bin"));
  REQUIRE_FALSE(fs::exists(folder / "cifar-10-binary.tar.gz"));
}

TEST_CASE("download: a wrong archive of the right length is refused and removed") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  std::string wrong = archive;
  wrong[archive.size() / 2] ^= 1;
  const LoopbackServer server(
      [&](const std::string&) { return response("200 OK", wrong, wrong.size()); });
  const TemporaryFolder folder;
  const DownloadOptions options = options_for(archive, {server.url("a")});
  REQUIRE_THROWS_WITH(
      download_cifar10(folder.path(), options),
      ContainsSubstring("its SHA-256 is") && ContainsSubstring("expected " + options.sha256));
  require_nothing(folder.path());
  REQUIRE(server.requests().size() == 1);
}

TEST_CASE("download: the next URL is tried, and all failures are told") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string archive = good_archive();
  const LoopbackServer lost(
      [](const std::string&) { return response("404 Not Found", "<html>", 6); });
  const LoopbackServer good([&](const std::string& request) { return serve(archive, request); });
  const TemporaryFolder folder;
  const TemporaryFolder other;
  download_cifar10(folder.path(), options_for(archive, {lost.url("a"), good.url("b")}));
  require_good(folder.path());
  REQUIRE(lost.requests().size() == 1);
  REQUIRE_THROWS_WITH(
      download_cifar10(other.path(), options_for(archive, {lost.url("a"), lost.url("b")})),
      ContainsSubstring("/a: ") && ContainsSubstring("/b: ") && ContainsSubstring("404"));
  REQUIRE_FALSE(fs::exists(other.path() / "cifar-10-batches-bin"));
}

TEST_CASE("download: without a network it says what to do by hand") {
  SKIP_WITHOUT_DOWNLOAD
  std::string gone;
  {
    gone = LoopbackServer([](const std::string&) { return std::string(); }).url("a");
  }
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(
      download_cifar10(folder.path(), options_for(good_archive(), {gone})),
      ContainsSubstring(gone) &&
          ContainsSubstring("fetch it elsewhere, put it into " + folder.path().string()) &&
          !ContainsSubstring("kept"));
  REQUIRE(fs::is_empty(folder.path()));
}

TEST_CASE("download: an archive put there by hand is checked and unpacked") {
  SKIP_WITHOUT_DOWNLOAD
  const TemporaryFolder folder;
  const DownloadOptions options = options_for(good_archive(), {"http://127.0.0.1:1/none"});
  write(folder / "cifar-10-binary.tar.gz", "something else");
  REQUIRE_THROWS_WITH(download_cifar10(folder.path(), options),
                      ContainsSubstring("is not the official archive: it has 14 bytes"));
  write(folder / "cifar-10-binary.tar.gz", good_archive());
  download_cifar10(folder.path(), options);
  require_good(folder.path());
}

TEST_CASE("download: a folder that cannot be made is an error") {
  SKIP_WITHOUT_DOWNLOAD
  const TemporaryFolder folder;
  write(folder / "file", "x");
  REQUIRE_THROWS_WITH(
      download_cifar10(folder / "file", options_for(good_archive(), {"http://127.0.0.1:1"})),
      ContainsSubstring("cannot be made"));
}

TEST_CASE("unpack: nothing is written outside of the archive's folder") {
  SKIP_WITHOUT_DOWNLOAD
  const std::string top = "cifar-10-batches-bin";
  const std::string good = tar_entry(top + "/good", "x");
  const auto unpack = [&](const std::string& entries) {
    const TemporaryFolder folder;
    fs::create_directory(folder / "in");
    write(folder / "a.tar", tar_of(good + entries));
    try {
      heddle::unpack_archive(folder / "a.tar", folder / "in" / top);
    } catch (const heddle::Error& error) {
      REQUIRE(fs::is_empty(folder / "in"));
      REQUIRE_FALSE(fs::exists(folder / "evil"));
      return std::string(error.what());
    }
    return std::string("no error");
  };
  REQUIRE(unpack("") == "no error");
  REQUIRE(unpack(tar_entry("./" + top + "/also", "x")) == "no error");
  for (const std::string& path :
       {std::string("evil"), top + "/../evil", top + "/../../evil", std::string("../evil"),
        "/" + top + "/evil", top + "x/evil", std::string("..")})
    REQUIRE_THAT(unpack(tar_entry(path, "x")), ContainsSubstring("expected paths in"));
  REQUIRE_THAT(unpack(tar_entry(top + "/link", "/etc", '2')),
               ContainsSubstring("neither a folder nor an ordinary file"));
  REQUIRE_THAT(unpack(tar_entry(top + "/link", top + "/good", '1')),
               ContainsSubstring("neither a folder nor an ordinary file"));
  REQUIRE_THAT(unpack(tar_entry(top + "/good", "again")), ContainsSubstring("cannot be written"));
}

TEST_CASE("unpack: a broken or empty archive leaves nothing") {
  SKIP_WITHOUT_DOWNLOAD
  const TemporaryFolder folder;
  const fs::path target = folder / "cifar-10-batches-bin";
  write(folder / "a.tar", "this is no archive at all");
  REQUIRE_THROWS_WITH(heddle::unpack_archive(folder / "a.tar", target),
                      ContainsSubstring("unpack: "));
  write(folder / "a.tar", good_archive().substr(0, 30'000));
  REQUIRE_THROWS_WITH(heddle::unpack_archive(folder / "a.tar", target),
                      ContainsSubstring("unpack: "));
  write(folder / "a.tar", tar_of(""));
  REQUIRE_THROWS_WITH(heddle::unpack_archive(folder / "a.tar", target),
                      ContainsSubstring("unpack: "));
  REQUIRE(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("sha256: of the empty file and of abc") {
  SKIP_WITHOUT_DOWNLOAD
  const TemporaryFolder folder;
  write(folder / "f", "");
  REQUIRE(heddle::sha256_of_file(folder / "f") ==
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  write(folder / "f", "abc");
  REQUIRE(heddle::sha256_of_file(folder / "f") ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  REQUIRE_THROWS_WITH(heddle::sha256_of_file(folder / "none"), ContainsSubstring("cannot be read"));
}
