#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "heddle/core/denormals.h"
#include "heddle/kernels/host/onednn.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle::onednn {
namespace {

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct PlanCache {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<const Plan>> plans;
};

PlanCache& plan_cache() {
  static PlanCache& cache = *new PlanCache;  // never destroyed: other statics may still run ops
  return cache;
}

/// Hands out the pieces of one block, each from a cache line on.
class Pieces {
 public:
  explicit Pieces(char* begin) : next_(begin) {}
  void* take(size_t bytes) {
    char* const piece = next_;
    next_ += padded(bytes);
    return piece;
  }

 private:
  char* next_;
};

dnnl::memory memory_at(const dnnl::memory::desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

dnnl::memory bytes_at(size_t bytes, void* data) {
  return memory_at({{static_cast<dnnl::memory::dim>(bytes)},
                    dnnl::memory::data_type::u8,
                    dnnl::memory::format_tag::a},
                   data);
}

std::unique_ptr<const Plan> build_plan(const std::function<Plan()>& build) {
  try {
    return std::make_unique<const Plan>(build());
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace

dnnl::engine& engine() {
  static dnnl::engine& instance = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  thread_local dnnl::stream instance(engine());
  return instance;
}

dnnl::memory::data_type data_type(DType dtype) {
  HEDDLE_CHECK(dtype_supported(dtype), "onednn: dtype is {}, expected float32 or bfloat16", dtype);
  return dtype == DType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

bool dtype_supported(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

dnnl::memory::desc describe(const dnnl::memory::dims& dims, DType dtype,
                            dnnl::memory::format_tag tag) {
  return {dims, data_type(dtype), tag};
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr attributes_with_relu(float slope) {
  dnnl::primitive_attr attr = attributes();
  dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, slope, 0.0F);
#else
  ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, slope, 0.0F);
#endif
  attr.set_post_ops(ops);
  return attr;
}

void Plan::refuse_reference(const char* implementation) {
  if (std::string_view(implementation).substr(0, 3) == "ref")
    throw dnnl::error(dnnl_unimplemented, "reference code only");
}

Plan& Plan::input(int arg, const dnnl::memory::desc& stored, const dnnl::memory::desc& wanted) {
  add(arg, false, stored, wanted);
  return *this;
}

Plan& Plan::output(int arg, const dnnl::memory::desc& stored, const dnnl::memory::desc& wanted) {
  add(arg, true, stored, wanted);
  return *this;
}

void Plan::add(int arg, bool is_output, const dnnl::memory::desc& stored,
               const dnnl::memory::desc& wanted) {
  Operand operand{arg, is_output, stored, wanted, {}};
  if (stored != wanted) {
    const dnnl::memory::desc& from = is_output ? wanted : stored;
    const dnnl::memory::desc& to = is_output ? stored : wanted;
    const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, attributes());
    operand.reorder = dnnl::reorder(pd);
    operand.reorder_scratch = pd.scratchpad_desc().get_size();
    reorder_scratch_ = std::max(reorder_scratch_, operand.reorder_scratch);
  }
  operands_.push_back(operand);
}

void Plan::run(std::initializer_list<const void*> pointers) const {
  HEDDLE_ASSERT(pointers.size() == operands_.size());
  const FlushDenormals flush;
  size_t bytes = padded(scratchpad_.get_size()) + padded(reorder_scratch_);
  for (const Operand& operand : operands_)
    if (operand.reorder) bytes += padded(operand.wanted.get_size());
  const cpu::Scratch scratch(static_cast<int64_t>(bytes));
  Pieces pieces(scratch.as<char>());
  void* const reorder_space = pieces.take(reorder_scratch_);
  std::unordered_map<int, dnnl::memory> arguments;
  arguments.emplace(DNNL_ARG_SCRATCHPAD,
                    memory_at(scratchpad_, pieces.take(scratchpad_.get_size())));
  std::vector<std::pair<const Operand*, dnnl::memory>> results;
  const auto run_reorder = [&](const Operand& operand, dnnl::memory from, dnnl::memory to) {
    operand.reorder.execute(
        stream(), {{DNNL_ARG_FROM, from},
                   {DNNL_ARG_TO, to},
                   {DNNL_ARG_SCRATCHPAD, bytes_at(operand.reorder_scratch, reorder_space)}});
  };
  const void* const* pointer = pointers.begin();
  for (const Operand& operand : operands_) {
    const dnnl::memory stored = memory_at(operand.stored, *pointer++);
    if (!operand.reorder) {
      arguments.emplace(operand.arg, stored);
      continue;
    }
    const dnnl::memory wanted = memory_at(operand.wanted, pieces.take(operand.wanted.get_size()));
    arguments.emplace(operand.arg, wanted);
    if (operand.is_output) {
      results.emplace_back(&operand, stored);
    } else {
      run_reorder(operand, stored, wanted);
    }
  }
  primitive_.execute(stream(), arguments);
  for (const auto& [operand, stored] : results)
    run_reorder(*operand, arguments.at(operand->arg), stored);
  stream().wait();
}

const Plan* find_plan(const std::string& key, const std::function<Plan()>& build) {
  const std::string full_key = fmt::format("{} threads {}", key, num_threads());
  PlanCache& cache = plan_cache();
  const std::lock_guard lock(cache.mutex);
  const auto found = cache.plans.find(full_key);
  if (found != cache.plans.end()) return found->second.get();
  return cache.plans.emplace(full_key, build_plan(build)).first->second.get();
}

const Plan& require_plan(const std::string& key, const std::function<Plan()>& build) {
  const Plan* plan = find_plan(key, build);
  HEDDLE_CHECK(plan != nullptr, "{}: oneDNN cannot do this on this processor, use native or auto",
               key);
  return *plan;
}

}  // namespace heddle::onednn
