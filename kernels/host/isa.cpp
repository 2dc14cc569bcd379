#include "heddle/kernels/host/isa.h"

#include <cstdlib>

namespace heddle::cpu {
namespace {

Isa best_isa() {
  if (processor_has(Isa::kAvx512)) return Isa::kAvx512;
  if (processor_has(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kBaseline;
}

void check_available(Isa isa) {
  HEDDLE_CHECK(processor_has(isa), "HEDDLE_ISA: this processor lacks {}, it has up to {}",
               name_of(isa), name_of(best_isa()));
}

Isa isa_from_environment() {
  const char* wanted = std::getenv("HEDDLE_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_isa();
  const Isa isa = parse_isa(wanted);
  check_available(isa);
  return isa;
}

Isa& active() {
  static Isa isa = isa_from_environment();
  return isa;
}

}  // namespace

Isa active_isa() { return active(); }

void set_active_isa(Isa isa) {
  check_available(isa);
  active() = isa;
}

bool processor_has(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
      return false;
#endif
  }
  return false;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (processor_has(isa)) isas.push_back(isa);
  return isas;
}

bool has_bfloat16_units() {
#if defined(__x86_64__)
  return active_isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Isa parse_isa(std::string_view text) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (text == name_of(isa)) return isa;
  fail("HEDDLE_ISA is \"{}\", expected baseline, avx2 or avx512", text);
}

}  // namespace heddle::cpu
