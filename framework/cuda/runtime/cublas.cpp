#include "lamina/cuda/runtime/cublas.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda {
namespace {

/// The functions used, found by name. Their types come from the toolkit's header; nothing is linked.
struct Library {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasGemmStridedBatchedEx_64) gemm = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
};

std::vector<std::string> candidates() {
  std::vector<std::string> names;
  if (const char* chosen = std::getenv("LAMINA_CUBLAS"); chosen != nullptr && *chosen != '\0')
    names.emplace_back(chosen);
  for (const char* directory : {"", "/usr/local/cuda/lib64/"}) {
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
      names.push_back(std::string(directory) + name);
    }
  }
  return names;
}

template <class Function>
void resolve(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr)
    detail::fail(ErrorKind::unsupported, "cuBLAS: the library found has no ", name, "; Lamina needs cuBLAS 12 or 13");
}

Library open_library() {
  std::string tried;
  for (const std::string& name : candidates()) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open for the life of the process
    if (handle == nullptr) {
      tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
      continue;
    }
    Library library;
    resolve(handle, "cublasCreate_v2", library.create);
    resolve(handle, "cublasDestroy_v2", library.destroy);
    resolve(handle, "cublasSetStream_v2", library.set_stream);
    resolve(handle, "cublasSetWorkspace_v2", library.set_workspace);
    resolve(handle, "cublasSetMathMode", library.set_math_mode);
    resolve(handle, "cublasGemmStridedBatchedEx_64", library.gemm);
    resolve(handle, "cublasGetStatusString", library.status_string);
    return library;
  }
  detail::fail(ErrorKind::unsupported,
               "algorithm im2col needs cuBLAS, which cannot be loaded: install the CUDA toolkit's cuBLAS, or name its ",
               "libcublas.so in LAMINA_CUBLAS (", tried, ')');
}

const Library& library() {
  static const Library opened = open_library();  // a failure is tried again by the next user
  return opened;
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    detail::fail(ErrorKind::failed, "cuBLAS: ", what, " failed: ", library().status_string(status));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

cublasMath_t math_mode(bool tf32, bool pedantic) {
  if (pedantic) return CUBLAS_PEDANTIC_MATH;
  if (tf32) return CUBLAS_TF32_TENSOR_OP_MATH;
  // Partial sums of a split product must not be rounded to 16 bits on their way.
  return static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

cublasComputeType_t compute_type(bool tf32, bool pedantic) {
  if (tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return pedantic ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
}

class CublasOnDevice final : public Cublas {
 public:
  explicit CublasOnDevice(int device) : device_(device) {
    const DeviceGuard guard(device_);
    check_cublas(library().create(&handle_), "cublasCreate");
  }
  ~CublasOnDevice() override {
    try {
      const DeviceGuard guard(device_);
      (void)library().destroy(handle_);
    } catch (const Error&) {  // the driver is gone, and the handle with it
    }
  }
  CublasOnDevice(const CublasOnDevice&) = delete;
  CublasOnDevice& operator=(const CublasOnDevice&) = delete;

  void gemm(const GemmArguments& a, Precision precision, void* workspace, std::size_t workspace_bytes,
            Stream stream) override {
    const bool tf32 = precision == Precision::tf32 && a.operands == DType::f32;
    const bool pedantic = !tf32 && a.operands == DType::f32;
    const float one = 1.0f;
    const DeviceGuard guard(device_);
    const std::scoped_lock lock(mutex_);  // stream and workspace belong to the handle, not to the call
    check_cublas(library().set_stream(handle_, static_cast<cudaStream_t>(stream)), "cublasSetStream");
    // Setting a stream brings back cuBLAS's own workspace, so ours is set after it.
    check_cublas(library().set_workspace(handle_, workspace, workspace_bytes), "cublasSetWorkspace");
    check_cublas(library().set_math_mode(handle_, math_mode(tf32, pedantic)), "cublasSetMathMode");
    check_cublas(library().gemm(handle_, a.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, a.m, a.n, a.k, &one,
                                a.a, type_of(a.operands), a.lda, a.stride_a, a.b, type_of(a.operands), a.ldb,
                                a.stride_b, &a.beta, a.c, type_of(a.result), a.ldc, a.stride_c, a.count,
                                compute_type(tf32, pedantic), CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx");
  }

 private:
  int device_;
  cublasHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

}  // namespace

std::shared_ptr<Cublas> Cublas::on_device(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Cublas>> handles;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Cublas> handle = handles[device].lock();
  if (handle == nullptr) {
    handle = std::make_shared<CublasOnDevice>(device);
    handles[device] = handle;
  }
  return handle;
}

}  // namespace lamina::cuda
