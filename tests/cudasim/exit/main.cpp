// Statics that own device memory, streams and events, made before and after the first call of the
// runtime: those made before it find the driver gone, as under CUDA, and nothing else happens.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

/// Prints what its calls return when it is destroyed.
struct Owner {
  const char* name;
  void* memory = nullptr;
  void* pinned = nullptr;
  cudaStream_t stream = nullptr;

  void fill() {
    const bool good = cudaMalloc(&memory, 64) == cudaSuccess &&
                      cudaMallocHost(&pinned, 64) == cudaSuccess &&
                      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                      cudaMemcpyAsync(memory, pinned, 64, cudaMemcpyDefault, stream) == cudaSuccess;
    if (!good) std::printf("%s: not made\n", name);
  }
  ~Owner() {
    std::printf("%s:", name);
    for (const cudaError_t status : {cudaStreamSynchronize(stream), cudaFree(memory),
                                     cudaFreeHost(pinned), cudaStreamDestroy(stream)}) {
      std::printf(" %s", cudaGetErrorName(status));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
};

Owner before{"made before"};

}  // namespace

int main(int argc, char** argv) {
  const std::string end = argc > 1 ? argv[1] : "return";
  before.fill();
  static Owner after{"made after"};
  after.fill();
  if (end == "exit") std::exit(3);
  if (end == "throw") throw std::runtime_error("the original text");
  return 0;
}
