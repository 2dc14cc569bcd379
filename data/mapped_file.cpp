#include "heddle/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "heddle/core/error.h"

namespace heddle {
namespace {

/// The mappings that a signal handler may look at: no locks and no memory of its own.
struct Mapping {
  std::atomic<const uint8_t*> begin{nullptr};
  std::atomic<int64_t> size{0};
  std::atomic<bool> damaged{false};  // a page could not be read
  std::array<char, 256> path{};
};
constexpr size_t kMaxMappings = 64;  // more files than this are mapped, but not explained
std::array<Mapping, kMaxMappings> mappings;

void remember(const uint8_t* data, int64_t size, const std::string& path) {
  for (Mapping& mapping : mappings) {
    int64_t unused = 0;
    if (!mapping.size.compare_exchange_strong(unused, -1)) continue;
    const size_t length = std::min(path.size(), mapping.path.size() - 1);
    std::memcpy(mapping.path.data(), path.data(), length);
    mapping.path[length] = '\0';
    mapping.damaged.store(false);
    mapping.begin.store(data);
    mapping.size.store(size);
    return;
  }
}

void forget(const uint8_t* data) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin.load() != data) continue;
    mapping.begin.store(nullptr);
    mapping.size.store(0);
    return;
  }
}

bool is_damaged(const uint8_t* data) {
  for (const Mapping& mapping : mappings)
    if (data != nullptr && mapping.begin.load() == data) return mapping.damaged.load();
  return false;
}

std::atomic<size_t> page_bytes{0};

/// Puts a page of zeros where one could not be read.
bool patch_page(const uint8_t* address) {
  const size_t bytes = page_bytes.load();
  const auto page = reinterpret_cast<uintptr_t>(address) / bytes * bytes;
  void* place = reinterpret_cast<void*>(page);
  return ::mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place;
}

void say(const char* text) {
  const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  (void)written;  // nothing is left to be done about it
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  for (Mapping& mapping : mappings) {
    const uint8_t* begin = mapping.begin.load();
    if (begin == nullptr || address < begin || address >= begin + mapping.size.load()) continue;
    mapping.damaged.store(true);
    if (patch_page(address)) return;
    say("error: data: ");
    say(mapping.path.data());
    say(" could not be read: it was cut short, or its disk failed, during the run\n");
    _exit(1);
  }
  std::signal(SIGBUS, SIG_DFL);  // returning runs into it again, now with the default action
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("data: {} cannot be opened: {}", path.string(), std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close();
    fail("data: {} is not an ordinary file", path.string());
  }
  size_ = status.st_size;
  modified_ = status.st_mtim;
  if (size_ == 0) return;  // nothing can be mapped, and nothing needs to be
  void* data = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    size_ = 0;
    close();
    fail("data: {} cannot be mapped: {}", path.string(), std::strerror(reason));
  }
  data_ = static_cast<const uint8_t*>(data);
  remember(data_, size_, path.string());
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_(other.modified_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  modified_ = other.modified_;
  return *this;
}

void MappedFile::close() noexcept {
  if (data_ != nullptr) {
    forget(data_);
    ::munmap(const_cast<uint8_t*>(data_), static_cast<size_t>(size_));
    data_ = nullptr;
  }
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void MappedFile::check_unchanged() const {
  if (is_damaged(data_))
    fail("data: {} could not be read: it was cut short, or its disk failed, during the run",
         path_.string());
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0)
    fail("data: {} can no longer be read: {}", path_.string(), std::strerror(errno));
  if (status.st_size != size_)
    fail("data: {} changed during the run: it has {} bytes, had {}", path_.string(),
         static_cast<int64_t>(status.st_size), size_);
  if (status.st_mtim.tv_sec != modified_.tv_sec || status.st_mtim.tv_nsec != modified_.tv_nsec)
    fail("data: {} was written during the run", path_.string());
}

void explain_bus_errors() {
  page_bytes.store(static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace heddle
