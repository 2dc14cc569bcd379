#include "heddle/tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace heddle::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

/// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& environment,
                         const char* directory, const char* out, const char* err,
                         int64_t file_size_limit) {
  signal(SIGINT, SIG_DFL);  // the test program has handlers of its own
  signal(SIGTERM, SIG_DFL);
  const int out_file = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int err_file = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, 0);
  dup2(out_file, 1);
  dup2(err_file, 2);
  if (directory[0] != '\0' && chdir(directory) != 0) _exit(126);
  if (file_size_limit > 0) {
    const rlimit limit{static_cast<rlim_t>(file_size_limit), static_cast<rlim_t>(file_size_limit)};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const ProcessOptions& options)
    : timeout_(options.timeout), start_(Clock::now()) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = options.environment;  // first: getenv takes the first
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  const std::string directory = options.directory.string();
  const std::string out = (scratch_ / "out").string(), err = (scratch_ / "err").string();
  pid_ = fork();
  if (pid_ == 0)
    become(argument_pointers, environment_pointers, directory.c_str(), out.c_str(), err.c_str(),
           options.file_size_limit);
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

Process::~Process() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
}

void Process::send(int signal) const { kill(pid_, signal); }

bool Process::running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string Process::out() const { return read_text(scratch_ / "out"); }
std::string Process::err() const { return read_text(scratch_ / "err"); }

bool Process::wait_for(const std::string& text, double seconds) {
  const Clock::time_point start = Clock::now();
  while (true) {
    const bool last_look = !running() || seconds_since(start) > seconds;
    if ((out() + err()).find(text) != std::string::npos) return true;
    if (last_look) return false;
    pause();
  }
}

ProcessResult Process::wait() {
  while (running()) {
    if (seconds_since(start_) > timeout_) kill(pid_, SIGKILL);
    pause();
  }
  ProcessResult result;
  result.seconds = seconds_since(start_);
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.out = out();
  result.err = err();
  return result;
}

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  return Process(command, options).wait();
}

std::string read_text(const fs::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace heddle::test
