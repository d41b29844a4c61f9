# The CUDA backend; without the toolkit stub.cpp stands in for all of it.
target_sources(lamina_objects PRIVATE
  cuda/architectures.cu
  cuda/backend.cpp
  cuda/check.cpp
  cuda/conv2d.cpp
  cuda/conv2d_direct.cu
  cuda/conv2d_direct_fixed.cu
  cuda/conv2d_direct_padded.cu
  cuda/conv2d_im2col.cpp
  cuda/conv2d_im2col.cu
  cuda/conv2d_textbook.cpp
  cuda/conv2d_tiled.cpp
  cuda/conv2d_tiled.cu
  cuda/convert.cu
  cuda/cublas.cpp
  cuda/elementwise.cu
  cuda/implicit_gemm.cpp
  cuda/implicit_gemm_bf16.cu
  cuda/implicit_gemm_choice.cpp
  cuda/implicit_gemm_fp16.cu
  cuda/implicit_gemm_fp32.cu
  cuda/implicit_gemm_layout.cpp
  cuda/implicit_gemm_sm90.cpp
  cuda/implicit_gemm_sm90_bf16.cu
  cuda/implicit_gemm_sm90_fp16.cu
  cuda/implicit_gemm_sm90_fp32.cu
  cuda/implicit_gemm_sm90_tf32.cu
  cuda/implicit_gemm_stage.cu
  cuda/implicit_gemm_tf32.cu
  cuda/linear.cpp
  cuda/linear_rows.cu
  cuda/local_response_norm.cu
  cuda/peak.cpp
  cuda/pool2d.cu
  cuda/relu.cu
  cuda/sm90_pack.cpp
  cuda/sm90_plan.cpp
  cuda/softmax.cu
  cuda/stream.cpp)
# Headers only: cudart_static is linked by the library, cuBLAS is opened at run time.
target_include_directories(lamina_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
