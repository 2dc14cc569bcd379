#include "symbols.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace cudasim {

namespace {

// Only what the loaded files hold themselves: no search for separate files, no network.
int no_separate_debug_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                           GElf_Word, char**) {
  return -1;
}

class Program {
 public:
  Program() {
    static const Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, no_separate_debug_file,
                                             nullptr, nullptr};
    dwfl_ = dwfl_begin(&callbacks);
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    dwfl_linux_proc_report(dwfl_, getpid());
    dwfl_report_end(dwfl_, nullptr, nullptr);
  }

  Dwfl_Module* module(uintptr_t address) const {
    return dwfl_ == nullptr ? nullptr : dwfl_addrmodule(dwfl_, address);
  }

 private:
  Dwfl* dwfl_ = nullptr;
};

// Leaked on purpose: findings may be written while the process ends.
Program& program() {
  static auto* instance = new Program;
  return *instance;
}

std::mutex& symbols_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// libdw wants a stack larger than a fiber's.
template <class Work>
void on_own_stack(Work&& work) {
  std::thread([&] {
    const std::lock_guard lock(symbols_mutex());
    work();
  }).join();
}

std::string demangled(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

std::string die_name(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    const char* name = dwarf_formstring(dwarf_attr_integrate(die, kind, &attribute));
    if (name != nullptr) return demangled(name);
  }
  return "";
}

// The file and line from which an inlined function was called.
void call_site(Dwarf_Die* unit, Dwarf_Die* inlined, SourceFrame& frame) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &value) == 0) {
    frame.line = static_cast<int>(value);
  }
  Dwarf_Files* files = nullptr;
  size_t n_files = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &value) == 0 &&
      dwarf_getsrcfiles(unit, &files, &n_files) == 0) {
    const char* name = dwarf_filesrc(files, value, nullptr, nullptr);
    if (name != nullptr) frame.file = name;
  }
}

// Walks from the innermost inlined function out to the function that holds the address.
void inlined_frames(Dwarf_Die* unit, Dwarf_Addr address, SourceFrame frame,
                    std::vector<SourceFrame>& frames) {
  Dwarf_Die* scopes = nullptr;
  const int n_innermost = dwarf_getscopes(unit, address, &scopes);
  if (n_innermost <= 0) {
    frames.push_back(frame);
    return;
  }
  Dwarf_Die innermost = scopes[0];
  std::free(scopes);
  scopes = nullptr;
  const int n_scopes = dwarf_getscopes_die(&innermost, &scopes);
  for (int i = 0; i < n_scopes; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    frame.function = die_name(&scopes[i]);
    frames.push_back(frame);
    if (tag == DW_TAG_subprogram) break;
    call_site(unit, &scopes[i], frame);
  }
  std::free(scopes);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool is_helper(const std::string& file) {
  for (const std::string_view part :
       {"/cudasim/include/", "/include/c++/", "device/vector.cuh", "device/vector_space.cuh",
        "device/ldmatrix.cuh", "device/cp_async.cuh", "device/atomic.cuh", "device/shared.cuh"}) {
    if (contains(file, part)) return true;
  }
  return false;
}

// Drops "(anonymous namespace)::", the arguments and the return type of a function template.
std::string short_name(std::string name) {
  for (const std::string_view part : {"(anonymous namespace)::", "heddle::cuda::", "heddle::"}) {
    for (size_t at = name.find(part); at != std::string::npos; at = name.find(part)) {
      name.erase(at, part.size());
    }
  }
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) name.resize(i);
  }
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  return name;
}

std::vector<SourceFrame> read_frames(uintptr_t return_address) {
  std::vector<SourceFrame> frames;
  const Dwarf_Addr address = return_address - 1;  // within the call
  Dwfl_Module* module = program().module(address);
  if (module == nullptr) return frames;
  SourceFrame frame;
  if (Dwfl_Line* line = dwfl_module_getsrc(module, address)) {
    const char* file = dwfl_lineinfo(line, nullptr, &frame.line, nullptr, nullptr, nullptr);
    if (file != nullptr) frame.file = file;
  }
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  if (unit == nullptr) {
    frame.function = demangled(dwfl_module_addrname(module, address));
    frames.push_back(frame);
    return frames;
  }
  inlined_frames(unit, address - bias, frame, frames);
  return frames;
}

}  // namespace

std::vector<SourceFrame> frames_at(uintptr_t return_address) {
  std::vector<SourceFrame> frames;
  if (return_address == 0) return frames;
  on_own_stack([&] { frames = read_frames(return_address); });
  return frames;
}

SourceFrame shown_frame(const std::vector<SourceFrame>& frames) {
  for (const SourceFrame& frame : frames) {
    if (!is_helper(frame.file)) return frame;
  }
  return frames.empty() ? SourceFrame{} : frames.back();
}

// Found once for each address: a barrier that was compiled twice asks for each of its lanes.
SourceFrame source_at(uintptr_t return_address) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<uintptr_t, SourceFrame>;  // leaked, as program()
  const std::lock_guard lock(mutex);
  const auto found = known->find(return_address);
  if (found != known->end()) return found->second;
  return known->emplace(return_address, shown_frame(frames_at(return_address))).first->second;
}

std::string place_text(const SourceFrame& frame, uintptr_t return_address) {
  if (!frame.file.empty()) return frame.file + ":" + std::to_string(frame.line);
  char text[32];
  std::snprintf(text, sizeof text, "%#jx", static_cast<uintmax_t>(return_address));
  return frame.function.empty() ? text : frame.function;
}

std::string kernel_name(const void* function) {
  std::string text = "unknown kernel";
  on_own_stack([&] {
    const auto address = reinterpret_cast<uintptr_t>(function);
    Dwfl_Module* module = program().module(address);
    const char* name = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
    if (name != nullptr) text = short_name(demangled(name));
  });
  return text;
}

std::vector<uintptr_t> call_stack(int limit) {
  void* addresses[32];
  const int n = backtrace(addresses, std::min(limit + 1, 32));
  std::vector<uintptr_t> stack;
  for (int i = 1; i < n; ++i) stack.push_back(reinterpret_cast<uintptr_t>(addresses[i]));
  return stack;
}

SourceFrame asked_from(const std::vector<uintptr_t>& stack) {
  SourceFrame last;
  for (const uintptr_t address : stack) {
    for (const SourceFrame& frame : frames_at(address)) {
      if (frame.file.empty()) continue;
      last = frame;
      if (!contains(frame.file, "/cudasim/src/") && !contains(frame.file, "/cudasim/include/") &&
          !contains(frame.file, "/core/") && !contains(frame.file, "/include/c++/")) {
        return frame;
      }
    }
  }
  return last;
}

}  // namespace cudasim
