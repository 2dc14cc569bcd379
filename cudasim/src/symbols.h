#pragma once

// Names and source lines of code addresses, from the program's own symbol table and DWARF.

#include <cstdint>
#include <string>
#include <vector>

namespace cudasim {

struct SourceFrame {
  std::string function;
  std::string file;
  int line = 0;
};

/// The frames of a return address: an inlined function before its caller. Empty where nothing is
/// known.
std::vector<SourceFrame> frames_at(uintptr_t return_address);

/// The innermost frame that is not of a helper that performs accesses: the line to show.
SourceFrame shown_frame(const std::vector<SourceFrame>& frames);
SourceFrame source_at(uintptr_t return_address);

/// "kernels/unary.cu:41", or the address in hexadecimal.
std::string place_text(const SourceFrame& frame, uintptr_t return_address);

/// A kernel's name without return type, arguments and anonymous namespaces.
std::string kernel_name(const void* function);

/// Return addresses of the callers, the nearest first; cheap enough for each allocation.
std::vector<uintptr_t> call_stack(int limit);

/// The first frame of a stack outside of cudasim and core: who asked for the memory.
SourceFrame asked_from(const std::vector<uintptr_t>& stack);

}  // namespace cudasim
