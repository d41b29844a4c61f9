# The CUDA backend; without the toolkit stub.cpp stands in for all of it.
target_sources(lamina_objects PRIVATE
  cuda/architectures.cu
  cuda/backend.cpp
  cuda/check.cpp
  cuda/constant.cpp
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
  cuda/implicit_gemm_stage.cu
  cuda/implicit_gemm_tf32.cu
  cuda/linear.cpp
  cuda/linear_rows.cu
  cuda/linear_stream.cpp
  cuda/local_response_norm.cu
  cuda/nhwc_choice.cpp
  cuda/nhwc_conv2d.cpp
  cuda/nhwc_maps.cpp
  cuda/nhwc_weights.cpp
  cuda/normalize.cu
  cuda/overlap.cpp
  cuda/peak.cpp
  cuda/pool2d.cu
  cuda/relu.cu
  cuda/scaled_rows.cu
  cuda/sm90_pack.cpp
  cuda/sm90_plan.cpp
  cuda/softmax.cu
  cuda/stream.cpp)

# Kernels on wgmma, which only 90a has: no other architecture need even parse them.
add_library(lamina_hopper OBJECT
  cuda/implicit_gemm_sm90_bf16.cu
  cuda/implicit_gemm_sm90_fp16.cu
  cuda/implicit_gemm_sm90_fp32.cu
  cuda/implicit_gemm_sm90_tf32.cu
  cuda/implicit_gemm_wgmma.cu
  cuda/linear_stream.cu
  cuda/nhwc_bf16.cu
  cuda/nhwc_fp16.cu
  cuda/nhwc_scaled_f16.cu
  cuda/nhwc_scaled_pairs.cu
  cuda/nhwc_split_tf32.cu
  cuda/nhwc_tf32.cu)
target_sources(lamina_objects INTERFACE $<TARGET_OBJECTS:lamina_hopper>)
target_include_directories(lamina_hopper PRIVATE "${PROJECT_BINARY_DIR}/include")
set_target_properties(lamina_hopper PROPERTIES CUDA_ARCHITECTURES "${LAMINA_HOPPER_ARCHITECTURES}"
                                               CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_definitions(lamina_hopper PRIVATE LAMINA_HOPPER)  # without it wgmma's headers refuse to be compiled
lamina_warnings(lamina_hopper)

if(LAMINA_CUDA_80_FOR_86_89)
  target_compile_options(lamina_objects PRIVATE
                         "$<$<COMPILE_LANGUAGE:CUDA>:--generate-code=arch=compute_80,code=[sm_86,sm_89]>")
  set_source_files_properties(cuda/architectures.cu PROPERTIES COMPILE_DEFINITIONS LAMINA_CUDA_80_FOR_86_89)
endif()
# Headers only: cudart_static is linked by the library, cuBLAS is opened at run time.
target_include_directories(lamina_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
