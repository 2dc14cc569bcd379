#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "profile.h"

namespace cudasim {

namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

long long number(int64_t value) { return static_cast<long long>(value); }

bool is_shared(AccessClass access) { return access >= AccessClass::kSharedLoad; }

// Which figure of a class tells whether it is good.
std::string row(const std::string& where, AccessClass access, const AccessCounts& counts) {
  std::string text =
      format("  %-34s %-13s %11lld %9lld %13lld", where.c_str(), access_class_name(access),
             number(counts.requests), number(counts.partial_requests), number(counts.bytes));
  if (is_shared(access)) {
    text += format(" %11s %8s %11lld", "-", "-", number(counts.conflicts));
  } else {
    text += format(" %11lld %8.2f %11s", number(counts.sectors), counts.sectors_per_request(), "-");
  }
  const bool atomic = access == AccessClass::kGlobalAtomic || access == AccessClass::kSharedAtomic;
  return text + (atomic ? format(" %10lld\n", number(counts.collisions)) : "          -\n");
}

std::string base_name(const std::string& file) { return file.substr(file.rfind('/') + 1); }

nlohmann::json to_json(const AccessCounts& counts) {
  return {{"requests", counts.requests},
          {"partial_requests", counts.partial_requests},
          {"lanes", counts.lanes},
          {"bytes", counts.bytes},
          {"sectors", counts.sectors},
          {"bank_passes", counts.passes},
          {"bank_conflicts", counts.conflicts},
          {"atomic_collisions", counts.collisions}};
}

nlohmann::json to_json(const KernelProfile& kernel) {
  nlohmann::json totals;
  for (int i = 0; i < kAccessClasses; ++i) {
    totals[access_class_name(static_cast<AccessClass>(i))] = to_json(kernel.totals[i]);
  }
  nlohmann::json lines = nlohmann::json::array();
  for (const LineProfile& line : kernel.lines) {
    nlohmann::json entry = to_json(line.counts);
    entry["file"] = line.file;
    entry["line"] = line.line;
    entry["access"] = access_class_name(line.access);
    lines.push_back(entry);
  }
  return {{"kernel", kernel.kernel},
          {"launches", kernel.launches},
          {"blocks", kernel.blocks},
          {"threads", kernel.threads},
          {"barriers", kernel.barriers},
          {"warp_syncs", kernel.warp_syncs},
          {"compulsory",
           {{"read_bytes", kernel.read_bytes},
            {"read_sectors", kernel.read_sectors},
            {"written_bytes", kernel.written_bytes},
            {"written_sectors", kernel.written_sectors}}},
          {"load_excess", kernel.load_excess()},
          {"store_excess", kernel.store_excess()},
          {"totals", totals},
          {"lines", lines}};
}

}  // namespace

std::string profile_table(const std::vector<KernelProfile>& kernels) {
  std::string text = "cudasim profile: counts, not times\n";
  for (const KernelProfile& kernel : kernels) {
    text += "\n" + kernel.kernel +
            format("\n  launches %lld, blocks %lld, threads %lld, barriers %lld, warp syncs %lld\n",
                   number(kernel.launches), number(kernel.blocks), number(kernel.threads),
                   number(kernel.barriers), number(kernel.warp_syncs));
    text += format(
        "  compulsory: %lld bytes read, %lld written; sectors moved against it: loads "
        "%.2f, stores %.2f\n",
        number(kernel.read_bytes), number(kernel.written_bytes), kernel.load_excess(),
        kernel.store_excess());
    text += format("  %-34s %-13s %11s %9s %13s %11s %8s %11s %10s\n", "line", "access", "requests",
                   "partial", "bytes", "sectors", "per req", "conflicts", "collisions");
    for (const LineProfile& line : kernel.lines) {
      text += row(base_name(line.file) + ":" + std::to_string(line.line), line.access, line.counts);
    }
  }
  return text;
}

std::string profile_json(const std::vector<KernelProfile>& kernels) {
  nlohmann::json all = nlohmann::json::array();
  for (const KernelProfile& kernel : kernels) all.push_back(to_json(kernel));
  return all.dump(2);
}

}  // namespace cudasim
