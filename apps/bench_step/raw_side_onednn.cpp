#include "heddle/apps/bench_step/raw_net_onednn.h"
#include "heddle/apps/bench_step/sides.h"
#include "heddle/core/error.h"
#include "heddle/kernels/host/isa.h"

namespace heddle::bench {
namespace {

using Net = RawNet;

void build_simple_cnn(Net& net, int64_t batch, Net::Linear linear) {
  const auto x = net.images(batch, 3, 32);
  const auto conv1 = net.conv(
      x,
      {.out = 32, .kernel = 3, .stride = 1, .bias = true, .relu = true, .input_gradient = false});
  const auto conv2 =
      net.conv(conv1.y, {.out = 64, .kernel = 3, .stride = 1, .bias = true, .relu = true});
  const auto fc1 = net.linear(conv2.y, 128, true, linear);
  const auto fc2 = net.linear(fc1.y, 10, false, linear);
  auto gradient = net.cross_entropy(fc2.y);
  for (const Net::Node* node : {&fc2, &fc1, &conv2, &conv1}) gradient = node->backward(gradient);
}

/// Two 3x3 convolutions and the way round them, a 1x1 convolution where the shape changes.
Net::Node basic_block(Net& net, const dnnl::memory& x, int64_t out, int64_t stride, bool project) {
  const auto conv1 = net.conv(x, {.out = out, .kernel = 3, .stride = stride});
  const auto bn1 = net.batch_norm(conv1.y, true);
  const auto conv2 = net.conv(bn1.y, {.out = out, .kernel = 3, .stride = 1});
  const auto bn2 = net.batch_norm(conv2.y, false);
  Net::Node skip_conv, skip_bn;
  if (project) {
    skip_conv = net.conv(x, {.out = out, .kernel = 1, .stride = stride});
    skip_bn = net.batch_norm(skip_conv.y, false);
  }
  const auto sum = net.add_relu(bn2.y, project ? skip_bn.y : x);
  return {sum.y, [=, &net](const dnnl::memory& dy) {
            const auto d_sum = sum.backward(dy);
            const auto d_main = conv1.backward(bn1.backward(conv2.backward(bn2.backward(d_sum))));
            return net.add(d_main, project ? skip_conv.backward(skip_bn.backward(d_sum)) : d_sum);
          }};
}

void build_resnet18(Net& net, int64_t batch, Net::Linear linear) {
  std::vector<Net::Node> nodes;
  nodes.push_back(net.conv(net.images(batch, 3, 32),
                           {.out = 64, .kernel = 3, .stride = 1, .input_gradient = false}));
  nodes.push_back(net.batch_norm(nodes.back().y, true));
  for (const int64_t out : {64, 128, 256, 512})
    for (const bool first : {true, false}) {
      const bool shrinks = first && out > 64;
      nodes.push_back(basic_block(net, nodes.back().y, out, shrinks ? 2 : 1, shrinks));
    }
  nodes.push_back(net.global_average(nodes.back().y));
  nodes.push_back(net.linear(nodes.back().y, 10, false, linear));
  auto gradient = net.cross_entropy(nodes.back().y);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    gradient = node->backward(gradient);
}

}  // namespace

bool onednn_has_bfloat16() {
  const auto units = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & units) == units;
}

std::vector<std::string> raw_side_names(const StepWork& work) {
  if (work.dtype == DType::kBFloat16 && !onednn_has_bfloat16()) return {};
  return {kRawInnerProduct, kRawPlain};
}

StepSide raw_side(const StepWork& work, const std::string& name) {
  const auto net = std::make_shared<RawNet>(work.dtype);
  const auto linear =
      name == kRawPlain ? RawNet::Linear::kPlainLayouts : RawNet::Linear::kInnerProduct;
  if (work.model == "simple_cnn") {
    build_simple_cnn(*net, work.batch, linear);
  } else {
    build_resnet18(*net, work.batch, linear);
  }
  net->adam();
  net->finish();
  return {name, [net] { net->run(); }, [net] { return net->loss(); }};
}

void limit_onednn_to_active_isa() {
  if (cpu::active_isa() == cpu::Isa::kAvx512) return;
  const bool avx2 = cpu::active_isa() == cpu::Isa::kAvx2;
  dnnl::set_max_cpu_isa(avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41);
}

}  // namespace heddle::bench
